-- SPDX-License-Identifier: Apache-2.0
-- A POST of 1 KB of JSON, for wrk: post.lua PREFIX KEYS. KEYS 0: every request has a new key; else one of
-- PREFIX-1 … PREFIX-KEYS, which were used before. Prints one line of numbers at the end.
local body = '{"amount":1250,"currency":"eur","note":"' .. string.rep("x", 1024 - 42) .. '"}'
local head = "POST / HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: " .. #body ..
    "\r\nIdempotency-Key: "
local threads = 0

function setup(thread)
    threads = threads + 1
    thread:set("id", threads)
end

function init(args)
    prefix, keys, count = args[1], tonumber(args[2]), 0
end

function request()
    count = count + 1
    local number = keys == 0 and id .. "-" .. count or (count - 1) % keys + 1
    return head .. prefix .. "-" .. number .. "\r\n\r\n" .. body
end

function done(summary, latency, requests)
    local errors = summary.errors
    io.write(string.format("requests=%d seconds=%.6f failed=%d refused=%d p50_us=%d p99_us=%d\n",
        summary.requests, summary.duration / 1e6, errors.connect + errors.read + errors.write + errors.timeout,
        errors.status, latency:percentile(50), latency:percentile(99)))
end
