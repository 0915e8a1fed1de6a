-- SPDX-License-Identifier: Apache-2.0
-- A database whose tables are of version 1, with an operation that was completed and one in doubt.
CREATE TABLE once_meta(id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL, next_fence INTEGER NOT NULL, last_ms INTEGER NOT NULL, ahead_ms INTEGER NOT NULL DEFAULT 0);
CREATE TABLE once_operation(ns TEXT NOT NULL, key TEXT NOT NULL, state INTEGER NOT NULL, attempt INTEGER NOT NULL, fence INTEGER NOT NULL, created_ms INTEGER NOT NULL, lease_end_ms INTEGER NOT NULL, retention_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL, code INTEGER NOT NULL, fingerprint BLOB, owner BLOB, point BLOB, data BLOB, result BLOB, PRIMARY KEY (ns, key)) WITHOUT ROWID;
CREATE INDEX once_operation_open ON once_operation(lease_end_ms) WHERE state IN (1, 4);
CREATE INDEX once_operation_ended ON once_operation(expires_ms) WHERE state IN (2, 3);
INSERT INTO once_meta VALUES (1, 1, 7, 1700000000000, 0);
INSERT INTO once_operation VALUES ('charges', 'order-1', 2, 1, 5, 1700000000000, 1700000030000, 86400000, 253402300799999, 201, x'bcb6034fa833b523edd35f8a13014e281e4745246a0cf7e3f37f8b11c887d23d', NULL, NULL, NULL, 'ch_1');
INSERT INTO once_operation VALUES ('charges', 'order-2', 4, 2, 6, 1700000000000, 1700000030000, 86400000, 253402300799999, 0, NULL, 'worker-1', 'charged', 'ch_2', NULL);
