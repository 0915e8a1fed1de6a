/* SPDX-License-Identifier: Apache-2.0
 *
 * What answers look like, as JSON Schema (2020-12), for the OpenAPI document. Tests hold every
 * answer that they get against these.
 *
 * Bytes stand under their name when they are UTF-8, else in base64 under name_base64.
 */
#include "server/http_inner.h"

#define TEXT "{\"type\":\"string\"}"
#define TEXT_OR_NULL "{\"type\":[\"string\",\"null\"]}"
#define BASE64 "{\"type\":\"string\",\"contentEncoding\":\"base64\"}"
#define NUMBER "{\"type\":\"integer\"}"
#define COUNTED "{\"type\":\"integer\",\"minimum\":0}"
#define COUNTED_OR_NULL "{\"type\":[\"integer\",\"null\"],\"minimum\":0}"
#define BOOL "{\"type\":\"boolean\"}"
#define FENCE "{\"type\":\"integer\",\"minimum\":1,\"maximum\":9007199254740991}"
#define CURSOR "{\"type\":\"string\",\"pattern\":\"^[0-9]{1,20}$\"}"
#define CLOSED "\"additionalProperties\":false"
#define STATE "{\"enum\":[\"started\",\"completed\",\"failed\",\"doubt\"]}"
/* One of the two. */
#define EITHER(name)                                                                               \
    "{\"oneOf\":[{\"required\":[\"" name "\"]},{\"required\":[\"" name "_base64\"]}]}"

/* An operation of a list. */
#define LISTED                                                                                     \
    "\"key\":" TEXT ",\"state\":" STATE ",\"fence\":" COUNTED ",\"attempt\":" COUNTED              \
    ",\"code\":" NUMBER ",\"owner\":" TEXT ",\"owner_base64\":" BASE64 ",\"point\":" TEXT          \
    ",\"point_base64\":" BASE64 ",\"created_ms\":" NUMBER ",\"lease_end_ms\":" NUMBER              \
    ",\"expires_ms\":" NUMBER
#define LISTED_NAMES                                                                               \
    "\"key\",\"state\",\"fence\",\"attempt\",\"created_ms\",\"lease_end_ms\",\"expires_ms\""
#define NAMED "{\"type\":\"array\",\"items\":{\"$ref\":\"#/components/schemas/OperationNamed\"}}"
/* Counters, by name. */
#define COUNTS "{\"type\":\"object\",\"additionalProperties\":" COUNTED "}"
#define SPREAD "{\"$ref\":\"#/components/schemas/Spread\"}"

_Static_assert(ONCE_FENCE_MAX == 9007199254740991ULL && ONCE_HISTORY_BYTES_MAX == 4096,
               "the texts say so");

const struct once__http_schema once__http_schemas[] = {
    {"Any", "{\"type\":\"object\"}"},
    {"Execute", "{\"type\":\"object\",\"properties\":{\"verdict\":{\"const\":\"EXECUTE\"},"
                "\"fence\":" FENCE ",\"attempt\":{\"type\":\"integer\",\"minimum\":1},"
                "\"point\":" TEXT_OR_NULL ",\"point_base64\":" BASE64 ",\"data\":" TEXT_OR_NULL
                ",\"data_base64\":" BASE64 "},\"required\":[\"verdict\",\"fence\",\"attempt\"],"
                "\"allOf\":[" EITHER("point") "," EITHER("data") "]," CLOSED "}"},
    {"Replay", "{\"type\":\"object\",\"properties\":{\"verdict\":{\"const\":\"REPLAY\"},"
               "\"code\":" NUMBER ",\"result\":" TEXT ",\"result_base64\":" BASE64 "},"
               "\"required\":[\"verdict\",\"code\"],\"allOf\":[" EITHER("result") "]," CLOSED "}"},
    {"Begun", "{\"oneOf\":[{\"$ref\":\"#/components/schemas/Execute\"},"
              "{\"$ref\":\"#/components/schemas/Replay\"}]}"},
    {"Ok", "{\"type\":\"object\",\"properties\":{\"verdict\":{\"const\":\"OK\"}},"
           "\"required\":[\"verdict\"]," CLOSED "}"},
    {"Completed",
     "{\"type\":\"object\",\"description\":\"OK: it was kept. RELEASED and DOUBT: the "
     "namespace's policy made that of its code.\",\"properties\":{\"verdict\":"
     "{\"enum\":[\"OK\",\"RELEASED\",\"DOUBT\"]}},\"required\":[\"verdict\"]," CLOSED "}"},
    {"Operation",
     "{\"type\":\"object\",\"properties\":{\"namespace\":" TEXT ",\"key\":" TEXT ",\"state\":" STATE
     ",\"fence\":" COUNTED ",\"attempt\":" COUNTED ",\"code\":" NUMBER ",\"result\":" TEXT
     ",\"result_base64\":" BASE64 ",\"reason\":" TEXT ",\"reason_base64\":" BASE64
     ",\"owner\":" TEXT_OR_NULL ",\"owner_base64\":" BASE64 ",\"point\":" TEXT_OR_NULL
     ",\"point_base64\":" BASE64 ",\"data\":" TEXT_OR_NULL ",\"data_base64\":" BASE64
     ",\"created_ms\":" NUMBER ",\"lease_end_ms\":" NUMBER ",\"retention_ms\":" NUMBER
     ",\"expires_ms\":" NUMBER ",\"now_ms\":" NUMBER ",\"fingerprint\":"
     "{\"type\":[\"string\",\"null\"],\"pattern\":\"^[0-9a-f]{64}$\"}},"
     "\"required\":[\"namespace\",\"key\",\"state\",\"fence\",\"attempt\",\"created_ms\","
     "\"lease_end_ms\",\"retention_ms\",\"expires_ms\",\"now_ms\",\"fingerprint\"]," CLOSED "}"},
    {"OperationList",
     "{\"type\":\"object\",\"properties\":{\"namespace\":" TEXT ",\"cursor\":" CURSOR
     ",\"operations\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{" LISTED
     "},\"required\":[" LISTED_NAMES "]," CLOSED "}}},"
     "\"required\":[\"namespace\",\"operations\",\"cursor\"]," CLOSED "}"},
    {"OperationNamed", "{\"type\":\"object\",\"properties\":{\"namespace\":" TEXT "," LISTED
                       "},\"required\":[\"namespace\"," LISTED_NAMES "]," CLOSED "}"},
    {"OperationPage",
     "{\"type\":\"object\",\"properties\":{\"cursor\":" CURSOR ",\"operations\":" NAMED "},"
     "\"required\":[\"operations\",\"cursor\"]," CLOSED "}"},
    {"Found",
     "{\"type\":\"object\",\"description\":\"namespaces: in so many it was looked for. complete: "
     "false while the server has not seen every namespace that its store holds; ask again.\","
     "\"properties\":{\"operations\":" NAMED ",\"namespaces\":" COUNTED ",\"complete\":" BOOL
     "},\"required\":[\"operations\",\"namespaces\",\"complete\"]," CLOSED "}"},
    {"History",
     "{\"type\":\"object\",\"properties\":{\"namespace\":" TEXT ",\"key\":" TEXT
     ",\"events\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"description\":\"Bytes are "
     "shown up to 4096; name_size says how many there are.\",\"properties\":{\"event\":{\"enum\":["
     "\"BEGAN\",\"TAKEN_OVER\",\"RENEWED\",\"CHECKPOINT\",\"DOUBT\",\"COMPLETED\",\"FAILED\","
     "\"RESOLVED_DONE\",\"RESOLVED_NOT_DONE\",\"FORGOTTEN\",\"APPLIED\",\"RETAINED\",\"KEPT\"]},"
     "\"at_ms\":" NUMBER ",\"state\":{\"enum\":[\"absent\",\"started\",\"completed\","
     "\"failed\",\"doubt\"]},\"fence\":" COUNTED ",\"attempt\":" COUNTED ",\"code\":" NUMBER
     ",\"owner\":" TEXT ",\"owner_base64\":" BASE64 ",\"point\":" TEXT ",\"point_base64\":" BASE64
     ",\"data\":" TEXT ",\"data_base64\":" BASE64 ",\"data_size\":" COUNTED ",\"result\":" TEXT
     ",\"result_base64\":" BASE64 ",\"result_size\":" COUNTED ",\"reason\":" TEXT
     ",\"reason_base64\":" BASE64 ",\"created_ms\":" NUMBER ",\"lease_end_ms\":" NUMBER
     ",\"expires_ms\":" NUMBER
     "},\"required\":[\"event\",\"at_ms\",\"state\",\"fence\",\"attempt\",\"created_ms\","
     "\"lease_end_ms\",\"expires_ms\"]," CLOSED "}},\"more\":" BOOL
     "},\"required\":[\"namespace\",\"key\",\"events\",\"more\"]," CLOSED "}"},
    {"Applied",
     "{\"type\":\"object\",\"description\":\"code and result instead of results: the key was begun "
     "and completed, and this is its answer.\",\"properties\":{\"verdict\":{\"enum\":[\"APPLIED\","
     "\"REPLAY\"]},\"results\":{\"type\":\"array\",\"items\":{\"type\":[\"integer\",\"string\"]}},"
     "\"code\":" NUMBER ",\"result\":" TEXT ",\"result_base64\":" BASE64 "},"
     "\"required\":[\"verdict\"],\"oneOf\":[{\"required\":[\"results\"]},"
     "{\"required\":[\"code\"]}]," CLOSED "}"},
    {"Written",
     "{\"type\":\"object\",\"properties\":{\"verdict\":{\"enum\":[\"APPLIED\","
     "\"REPLAY\"]},\"version\":" COUNTED "},\"required\":[\"verdict\",\"version\"]," CLOSED "}"},
    {"Merged",
     "{\"type\":\"object\",\"properties\":{\"verdict\":{\"const\":\"OK\"},\"changed\":" BOOL
     "},\"required\":[\"verdict\",\"changed\"]," CLOSED "}"},
    {"Object",
     "{\"type\":\"object\",\"description\":\"What it holds depends on its type: a counter "
     "has value, a register version and value, a set count and members, and so on.\","
     "\"properties\":{\"name\":" TEXT ",\"type\":" TEXT "},\"required\":[\"name\",\"type\"]}"},
    {"ObjectList", "{\"type\":\"object\",\"properties\":{\"objects\":{\"type\":\"array\",\"items\":"
                   "{\"type\":\"object\",\"properties\":{\"name\":" TEXT ",\"type\":" TEXT "},"
                   "\"required\":[\"name\",\"type\"]," CLOSED "}},\"cursor\":" CURSOR "},"
                   "\"required\":[\"objects\",\"cursor\"]," CLOSED "}"},
    {"ItemList",
     "{\"type\":\"object\",\"properties\":{\"items\":{\"type\":\"array\",\"items\":"
     "{\"type\":\"object\",\"properties\":{\"number\":" COUNTED ",\"id\":" TEXT
     ",\"id_base64\":" BASE64 ",\"group\":" TEXT ",\"group_base64\":" BASE64 ",\"payload\":" TEXT
     ",\"payload_base64\":" BASE64 "},\"required\":[\"number\"]," CLOSED "}},\"cursor\":" CURSOR
     ",\"more\":" BOOL "},\"required\":[\"items\",\"cursor\",\"more\"]," CLOSED "}"},
    {"Namespace",
     "{\"type\":\"object\",\"properties\":{\"namespace\":" TEXT ",\"declared\":" BOOL
     ",\"retention_ms\":" COUNTED ",\"retention_ms_max\":" COUNTED ",\"lease_ms\":" COUNTED
     ",\"lease_ms_max\":" COUNTED ",\"wait_ms_max\":" COUNTED
     ",\"on_doubt\":{\"enum\":[\"reject\",\"retry\"]},"
     "\"doubt_fixed\":" BOOL ",\"codes\":{\"enum\":[\"any\",\"http\"]},\"on_5xx\":{\"enum\":"
     "[\"default\",\"release\",\"store\",\"doubt\",null]},\"result_size_max\":" COUNTED
     ",\"by_user\":" BOOL "},\"required\":[\"namespace\",\"declared\",\"retention_ms\","
     "\"retention_ms_max\","
     "\"lease_ms\",\"lease_ms_max\",\"wait_ms_max\",\"on_doubt\",\"doubt_fixed\",\"codes\","
     "\"on_5xx\",\"result_size_max\",\"by_user\"]," CLOSED "}"},
    {"NamespaceList", "{\"type\":\"object\",\"properties\":{\"declared_only\":" BOOL
                      ",\"namespaces\":{\"type\":\"array\",\"items\":"
                      "{\"$ref\":\"#/components/schemas/Namespace\"}}},"
                      "\"required\":[\"declared_only\",\"namespaces\"]," CLOSED "}"},
    {"Spread",
     "{\"type\":\"object\",\"description\":\"Bucket i counts those up to 2^i, the last one "
     "all others.\",\"properties\":{\"buckets\":{\"type\":\"array\",\"minItems\":28,"
     "\"maxItems\":28,\"items\":" COUNTED "},\"sum\":" COUNTED "},"
     "\"required\":[\"buckets\",\"sum\"]," CLOSED "}"},
    {"Verdicts",
     "{\"type\":\"object\",\"description\":\"By call, then by word. A word that was never "
     "said is not there.\",\"additionalProperties\":" COUNTS "}"},
    {"Stats",
     "{\"type\":\"object\",\"description\":\"Counters since the server started, and what is so "
     "now. "
     "Counters of one document are of one moment: uptime_ms. disk_size_max 0: no bound was set. "
     "Null: a store that servers share (shared) has no such number. unreachable: it does not "
     "answer "
     "now. "
     "doubts_more: there are more than were counted.\",\"properties\":{"
     "\"version\":" TEXT ",\"ready\":" BOOL ",\"stopped\":" BOOL ",\"shared\":" BOOL
     ",\"unreachable\":" BOOL ",\"doubts_more\":" BOOL
     ",\"phase\":{\"enum\":[\"loading\",\"ready\",\"draining\",\"failed\"]},"
     "\"verdicts\":{\"$ref\":\"#/components/schemas/Verdicts\"},\"errors\":" COUNTS
     ",\"latency_us\":" SPREAD ",\"write_us\":" SPREAD ",\"write_ops\":" SPREAD
     ",\"connections\":{\"type\":\"object\",\"properties\":{\"resp\":" COUNTED ",\"http\":" COUNTED
     "},\"required\":[\"resp\",\"http\"]," CLOSED "},"
     "\"namespaces\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{"
     "\"namespace\":" TEXT ",\"verdicts\":{\"$ref\":\"#/components/schemas/Verdicts\"},"
     "\"errors\":" COUNTED "},\"required\":[\"namespace\",\"verdicts\",\"errors\"]," CLOSED "}},"
     "\"keys\":" COUNTED ","
     "\"keys_max\":" COUNTED_OR_NULL ","
     "\"keys_open\":" COUNTED ","
     "\"doubts\":" COUNTED ","
     "\"started\":" COUNTED ","
     "\"index_size\":" COUNTED_OR_NULL ","
     "\"memory_size\":" COUNTED ","
     "\"objects\":" COUNTED ","
     "\"objects_size\":" COUNTED ","
     "\"objects_size_max\":" COUNTED_OR_NULL ","
     "\"disk_size\":" COUNTED_OR_NULL ","
     "\"disk_size_max\":" COUNTED_OR_NULL ","
     "\"disk_free\":" COUNTED_OR_NULL ","
     "\"log_size\":" COUNTED_OR_NULL ","
     "\"live_size\":" COUNTED_OR_NULL ","
     "\"segments\":" COUNTED_OR_NULL ","
     "\"batches\":" COUNTED ","
     "\"records\":" COUNTED ","
     "\"parked\":" COUNTED ","
     "\"commands\":" COUNTED ","
     "\"http_requests\":" COUNTED ","
     "\"bytes_in\":" COUNTED ","
     "\"bytes_out\":" COUNTED ","
     "\"auth_failed\":" COUNTED ","
     "\"rate_limited\":" COUNTED ","
     "\"now_ms\":" COUNTED ","
     "\"uptime_ms\":" COUNTED ","
     "\"started_ms\":" COUNTED ","
     "\"loaded\":" COUNTED ","
     "\"to_load\":" COUNTED "},\"required\":["
     "\"version\",\"ready\",\"stopped\",\"shared\",\"unreachable\",\"doubts_more\",\"phase\","
     "\"verdicts\",\"errors\","
     "\"latency_us\",\"write_us\",\"write_ops\",\"connections\",\"namespaces\",\"keys\","
     "\"keys_max\",\"keys_open\",\"doubts\",\"started\",\"index_size\",\"memory_size\","
     "\"objects\",\"objects_size\",\"objects_size_max\",\"disk_size\",\"disk_size_max\","
     "\"disk_free\",\"log_size\",\"live_size\",\"segments\",\"batches\",\"records\","
     "\"parked\",\"commands\",\"http_requests\",\"bytes_in\",\"bytes_out\",\"auth_failed\","
     "\"rate_limited\",\"now_ms\",\"uptime_ms\",\"started_ms\",\"loaded\",\"to_load\""
     "]," CLOSED "}"},
    {"Me",
     "{\"type\":\"object\",\"description\":\"user: null where nobody said who they are and nobody "
     "had to. users: the configuration knows any.\",\"properties\":{\"user\":" TEXT_OR_NULL
     ",\"role\":{\"enum\":[\"read\",\"write\",\"admin\"]},\"users\":" BOOL "},"
     "\"required\":[\"user\",\"role\",\"users\"]," CLOSED "}"},
    {"Health", "{\"type\":\"object\",\"properties\":{\"status\":{\"const\":\"alive\"}},"
               "\"required\":[\"status\"]," CLOSED "}"},
    {"Readiness",
     "{\"type\":\"object\",\"properties\":{\"status\":{\"enum\":[\"ready\",\"loading\","
     "\"draining\",\"failed\",\"unreachable\"]},\"loaded\":" COUNTED ",\"to_load\":" COUNTED "},"
     "\"required\":[\"status\"]," CLOSED "}"},
    {"Problem",
     "{\"type\":\"object\",\"description\":\"Problem details, RFC 9457. verdict: the word of Once, "
     "where there is one. error: the name of an error. field: the field that is not valid.\","
     "\"properties\":{\"type\":{\"type\":\"string\",\"pattern\":\"^urn:once:problem:[a-z-]+$\"},"
     "\"title\":" TEXT ",\"status\":{\"type\":\"integer\",\"minimum\":400,\"maximum\":599},"
     "\"detail\":" TEXT ",\"instance\":" TEXT ",\"verdict\":{\"enum\":[\"BUSY\",\"MISMATCH\","
     "\"DOUBT\",\"TOO_OLD\",\"STALE\",\"NOTFOUND\",\"REJECTED\"]},\"error\":"
     "{\"type\":\"string\",\"pattern\":\"^ERR_[A-Z_]+$\"},\"field\":" TEXT ",\"retry_ms\":" COUNTED
     ",\"fence\":" FENCE ",\"attempt\":" COUNTED ",\"point\":" TEXT ",\"point_base64\":" BASE64
     ",\"data\":" TEXT ",\"data_base64\":" BASE64 ",\"effect\":" COUNTED ",\"word\":" TEXT
     ",\"reason\":" TEXT ",\"replayed\":" BOOL ",\"deleted\":" BOOL ",\"version\":" COUNTED "},"
     "\"required\":[\"type\",\"title\",\"status\",\"detail\"]," CLOSED "}"},
};
const size_t once__http_schema_count = sizeof once__http_schemas / sizeof once__http_schemas[0];
