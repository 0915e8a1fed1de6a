/* SPDX-License-Identifier: Apache-2.0
 *
 * Every bound and every default of Once, in one place (INV-9).
 *
 * At a bound new work is refused with a clear error; nothing is ever evicted, because evicting a
 * key is a double effect.
 */
#ifndef ONCE_LIMITS_H
#define ONCE_LIMITS_H

/* Names. */
#define ONCE_NAMESPACE_SIZE_MAX 64
#define ONCE_KEY_SIZE_MAX 255
#define ONCE_OWNER_SIZE_MAX 64
#define ONCE_POINT_SIZE_MAX 64

/* Payloads. */
#define ONCE_DATA_SIZE_MAX (1 << 20)
#define ONCE_RESULT_SIZE_MAX (1 << 24)
#define ONCE_REASON_SIZE_MAX (1 << 12) /* why an operation failed */
#define ONCE_FINGERPRINT_SIZE 32
#define ONCE_FINGERPRINT_HEADERS_SIZE_MAX (1 << 16) /* names and values of those that count */

/* Clocks. The lease of a running attempt and the retention of a result are two things (K4). */
#define ONCE_LEASE_MS_DEFAULT 30000LL        /* 30 s */
#define ONCE_LEASE_MS_MAX 604800000LL        /* 7 d */
#define ONCE_RETENTION_MS_DEFAULT 86400000LL /* 24 h */
#define ONCE_RETENTION_MS_MAX 315576000000LL /* 10 years */
#define ONCE_RETRY_MS_MAX 1000LL             /* longest "come back later" of a BUSY */
#define ONCE_KEY_SKEW_MS_MAX 86400000LL      /* a key may be born this far in the future */
#define ONCE_NOW_MS_MAX 253402300799999LL    /* end of the year 9999 */
#define ONCE_TIME_MS_MAX (ONCE_NOW_MS_MAX + ONCE_KEY_SKEW_MS_MAX + ONCE_RETENTION_MS_MAX)

/* Tokens. 2^53 - 1: a JSON reader that keeps numbers as doubles keeps every fence exact. */
#define ONCE_FENCE_MAX 9007199254740991ULL
#define ONCE_ATTEMPT_MAX 1000000000U    /* attempts count up to here, then stay */
#define ONCE_VERSION_MAX ONCE_FENCE_MAX /* versions, sequence numbers, epochs, message numbers */
#define ONCE_BUCKET_COUNT_MAX 9223372036854775807ULL /* what a signed 64-bit reader keeps */
#define ONCE_MACHINE_STATES_MAX 64                   /* states of one declared machine */

/* The embedded engine. */
#define ONCE_BLOCK_SIZE 4096                /* writes begin and end at multiples of it */
#define ONCE_SEGMENT_SIZE_DEFAULT (1 << 25) /* 32 MiB */
#define ONCE_SEGMENT_SIZE_MIN (1 << 15)     /* 32 KiB: for tests */
#define ONCE_SEGMENT_SIZE_MAX (1 << 30)     /* 1 GiB */
#define ONCE_SEGMENTS_MAX (1 << 19)         /* segments of one store */
#define ONCE_KEYS_MAX (1ULL << 32)          /* keys of one store; options may say less */
#define ONCE_BATCH_SIZE_MAX (1 << 20)       /* a batch is closed when it is this large */
#define ONCE_BATCHES_IN_FLIGHT_MAX 4        /* durable writes under way at once */
#define ONCE_BATCH_FURTHER_SIZE (1 << 16)   /* a batch this large is written beside another */
#define ONCE_INTERVAL_MS_DEFAULT 100LL      /* durability "interval" */
#define ONCE_INTERVAL_MS_MAX 60000LL        /* 1 min */
#define ONCE_SUBMITTED_MAX (1 << 20)        /* operations submitted and not answered yet */
#define ONCE_LIST_COUNT_MAX 1000            /* operations in one page of a list */
#define ONCE_HISTORY_BYTES_MAX 4096         /* shown of a result in an operation's past */
#define ONCE_OPEN_FILES_MAX 128             /* segments kept open for reading */
#define ONCE_RESULT_RESERVED 1024           /* bytes of result that fit even on a full disk */
#define ONCE_MESSAGE_SIZE 1024              /* a message about a store, with its NUL */

/* Results of submitted operations that were decided and not told yet, in bytes. */
#define ONCE_SUBMITTED_SIZE_MAX (1ULL << 28)

/* Objects and effects. */
#define ONCE_OBJECT_NAME_SIZE_MAX 255
#define ONCE_OBJECTS_MAX (1ULL << 31)          /* objects of one store */
#define ONCE_OBJECTS_SIZE_DEFAULT (1ULL << 32) /* bytes of memory for all of them: 4 GiB */
#define ONCE_EFFECTS_MAX 64                    /* effects of one apply */
#define ONCE_EFFECT_WORDS_MAX 4096             /* words of one effect */
#define ONCE_EFFECTS_SIZE_MAX (1 << 20)        /* bytes of all their words */
#define ONCE_EDITS_SIZE_MAX (1 << 22)          /* what one apply writes about objects */
#define ONCE_MERGEABLE_SIZE_MAX (1 << 20)      /* the state of one mergeable object */
#define ONCE_VALUE_SIZE_MAX (1 << 18)          /* value of a register */
#define ONCE_PAYLOAD_SIZE_MAX (1 << 18)        /* payload of an event or a message */
#define ONCE_EVENT_ID_SIZE_MAX 255
#define ONCE_GROUP_SIZE_MAX 255
#define ONCE_BUCKET_SIZE_MAX 64             /* the name of a bucket */
#define ONCE_BUCKETS_MAX (1 << 16)          /* buckets of one object */
#define ONCE_EVENTS_MAX (1 << 24)           /* events of one log */
#define ONCE_MESSAGES_MAX (1 << 24)         /* messages waiting in one outbox */
#define ONCE_STATE_NAME_SIZE_MAX 32         /* a machine's state */
#define ONCE_DECLARATION_SIZE_MAX (1 << 16) /* a machine's moves */
#define ONCE_RECENT_SIZE_MAX (1 << 22)      /* deltas kept for replicas that ask soon */

/* Mergeable types. */
#define ONCE_LATTICE_SIZE_MAX (1 << 28)    /* one encoded state */
#define ONCE_LATTICE_ENTRIES_MAX (1 << 24) /* entries of one collection */
#define ONCE_LATTICE_DEPTH_MAX 8           /* maps inside maps */
#define ONCE_LATTICE_TEXT_MAX 4096         /* a description */
#define ONCE_MEMBER_SIZE_MAX (1 << 16)     /* a set member, a register's value, a map's key */
#define ONCE_NODE_SIZE_MAX 64              /* a replica's name */

/* Values (SET, GET). */
#define ONCE_VALUES_NAMESPACE "redis" /* where they live, and nothing else does */

/* The server. */
#define ONCE_LISTENERS_MAX 8 /* of each protocol */
#define ONCE_USERS_MAX 1000
#define ONCE_POLICIES_MAX 1000  /* declared namespaces */
#define ONCE_USER_SIZE_MAX 32   /* a user's name */
#define ONCE_USER_LIST_MAX 1000 /* namespaces, or beginnings of objects, of one user */
#define ONCE_PASSWORD_SIZE_MIN 8
#define ONCE_PASSWORD_SIZE_MAX 256
#define ONCE_PASSWORD_CACHE_MS 60000LL /* a password that was right is not hashed again */
#define ONCE_AUTH_FAILURES_MAX 10      /* wrong passwords from one address, */
#define ONCE_AUTH_WINDOW_MS 10000LL    /* in this time */
#define ONCE_AUTH_DEADLINE_MS 10000LL  /* a connection must say who it is */
#define ONCE_AUTH_JOBS_MAX 1024        /* passwords that wait to be compared */
#define ONCE_LOOK_JOBS_MAX 1024        /* lists and objects that wait to be read */
#define ONCE_CONFIG_SIZE_MAX (1 << 20) /* a configuration file */
#define ONCE_CONFIG_WARNINGS_MAX 8
#define ONCE_STORE_URL_SIZE_MAX 2048 /* where a shared store is */
#define ONCE_PROBE_MS_MIN 20LL       /* a shared store: who waits asks again so soon, */
#define ONCE_PROBE_MS_MAX 250LL      /* then less often, up to here, */
#define ONCE_PROBES_S_MAX 2000       /* and all of them together not more often a second */
#define ONCE_CONNECTIONS_DEFAULT 20000
#define ONCE_CONNECTIONS_MAX 1000000
#define ONCE_CLIENT_NAME_SIZE_MAX 64
#define ONCE_PIPELINE_MAX 1024           /* commands of one connection under way */
#define ONCE_CALLS_MAX (1 << 18)         /* calls of all connections under way, parked ones apart */
#define ONCE_PARKED_MAX (1 << 17)        /* calls that WAIT */
#define ONCE_WAIT_MS_MAX 3600000LL       /* 1 h */
#define ONCE_WAIT_MS_DEFAULT_MAX 60000LL /* of a namespace that says nothing */
#define ONCE_COMMAND_ARGS_MAX 8192       /* words of one RESP command */
#define ONCE_COMMAND_SIZE_MAX (ONCE_RESULT_SIZE_MAX + (1 << 16))
#define ONCE_COMMAND_ARGS_MAX_UNKNOWN 32 /* before someone is known */
#define ONCE_COMMAND_SIZE_MAX_UNKNOWN 4096
#define ONCE_INLINE_SIZE_MAX (1 << 16)    /* a command typed on one line */
#define ONCE_AWAY_SIZE_PAUSE (1 << 22)    /* bytes of its commands under way: the same */
#define ONCE_UNSENT_SIZE_PAUSE (1 << 20)  /* unsent bytes of a connection: it is not read from */
#define ONCE_UNSENT_SIZE_MAX (1ULL << 30) /* unsent bytes of all: who has any is not read from */
#define ONCE_HELD_SIZE_MAX (1ULL << 30)   /* results that wait for their turn, and unsent bytes */
#define ONCE_SLOW_READER_MS 30000LL       /* unsent bytes that nobody takes: closed */
#define ONCE_UNREAD_SIZE_MAX (1ULL << 30) /* bytes of commands of all connections under way */
#define ONCE_TLS_PENDING_MAX (1 << 17)    /* ciphertext that was not read yet */
#define ONCE_IDLE_MS_DEFAULT 0LL          /* silent connections stay */
#define ONCE_DRAIN_MS_DEFAULT 30000LL
#define ONCE_HTTP_BODY_SIZE_MAX (ONCE_RESULT_SIZE_MAX / 3 * 4 + (1 << 16)) /* base64 and names */
#define ONCE_HTTP_CONNECTIONS_MAX 5000
#define ONCE_HTTP_TIMEOUT_MS 60000LL /* a connection that does not go on */
#define ONCE_LOG_FIELD_SIZE_MAX 512
#define ONCE_LOG_RATE_MAX 20            /* lines of one event in a second */
#define ONCE_METRICS_NAMESPACES_MAX 256 /* with counters of their own */
#define ONCE_STATS_MS 250LL             /* one document of numbers serves all who ask so soon */
#define ONCE_DOUBTS_MS 1000LL           /* doubts are not counted again so soon, */
#define ONCE_DOUBTS_COUNT_MAX 10000     /* no further, */
#define ONCE_DOUBTS_COUNT_MS 100LL      /* and no longer */
#define ONCE_LIST_LOOK_MS 100LL         /* a page looks for its first rows so long */
#define ONCE_SCOPES_MAX 4096            /* namespaces that a search looks in */
#define ONCE_SCOPES_LOOK_MS 50LL        /* and for how long it looks for more of them */
#define ONCE_CLIENT_TIMEOUT_MS 30000LL
#define ONCE_ANSWER_BYTES_MAX (ONCE_COMMAND_SIZE_MAX + (1 << 16)) /* one string of an answer */
#define ONCE_ANSWER_SIZE_MAX (1 << 29)                            /* a whole answer */
#define ONCE_ANSWER_ITEMS_MAX 1000000                             /* values of one answer */
#define ONCE_ANSWER_DEPTH_MAX 8                                   /* lists inside lists */

/* Calls over HTTP (call.h). */
#define ONCE_SEND_METHOD_SIZE_MAX 32
#define ONCE_SEND_URL_SIZE_MAX 8192
#define ONCE_SEND_HEADERS_MAX 100            /* of a request */
#define ONCE_SEND_HEADERS_SIZE_MAX (1 << 16) /* of a request, and of its secrets when filled in */
#define ONCE_SEND_BODY_KEPT_MAX (1 << 19)    /* a larger body stays in its file */
#define ONCE_SEND_FILE_SIZE_MAX (1 << 28)    /* 256 MiB */
#define ONCE_SEND_ANSWER_HEADERS_MAX 1000    /* of an answer */
#define ONCE_SEND_ANSWER_HEADERS_SIZE_MAX (1 << 18)
#define ONCE_SEND_ANSWER_SIZE_MAX (1 << 28)   /* body that the caller is given: 256 MiB */
#define ONCE_SEND_KEPT_SIZE_DEFAULT (1 << 20) /* of it the store keeps, for replays */
#define ONCE_SEND_KEPT_SIZE_MAX (15 << 20)
#define ONCE_SEND_ATTEMPTS_DEFAULT 10
#define ONCE_SEND_ATTEMPTS_MAX 1000
#define ONCE_SEND_BACKOFF_MS_DEFAULT 200LL /* the first; doubled each time, up to */
#define ONCE_SEND_BACKOFF_MS_MAX_DEFAULT 10000LL
#define ONCE_SEND_RETRY_AFTER_MS_DEFAULT 60000LL /* a longer Retry-After counts as this */
#define ONCE_SEND_DEADLINE_MS_DEFAULT 120000LL   /* all attempts together */
#define ONCE_SEND_TIMEOUT_MS_DEFAULT 30000LL     /* one attempt */
#define ONCE_SEND_CONNECT_MS_DEFAULT 10000LL     /* its connection */
#define ONCE_SEND_TIME_MS_MAX 604800000LL        /* each of these: 7 d */
#define ONCE_SEND_FINAL_MAX 32                   /* further statuses that are final */

/* once run. */
#define ONCE_RUN_STORE_MS 30000LL              /* a store that does not answer is waited for */
#define ONCE_RUN_HELD_UP_MAX 10                /* leases that end before the command is started */
#define ONCE_RUN_LEASE_MS_MIN 100LL            /* shorter ones end before a folder is open */
#define ONCE_RUN_OUTPUT_SIZE_DEFAULT (1 << 20) /* bytes of output kept, */
#define ONCE_RUN_OUTPUT_SIZE_MAX (15 << 20)    /* at most, */
#define ONCE_RUN_FRAMES_MAX (1 << 16)          /* in so many pieces */
#define ONCE_RUN_REASON_SIZE_MAX 1000          /* of the end of stderr, why a command failed */

/* The gateway. */
#define ONCE_GATE_LINKS_DEFAULT 2 /* connections of each worker to the server */
#define ONCE_GATE_LINKS_MAX 64
#define ONCE_GATE_BEGIN_MS_DEFAULT 2000
#define ONCE_GATE_END_MS_DEFAULT 10000
#define ONCE_GATE_BODY_SIZE_DEFAULT (1 << 20)   /* of a request with a key */
#define ONCE_GATE_ANSWER_SIZE_DEFAULT (1 << 20) /* of an answer that is kept; */
#define ONCE_GATE_ANSWER_SIZE_MAX (ONCE_RESULT_SIZE_MAX - (1 << 18)) /* and room for its headers */

/* A store on PostgreSQL. */
#define ONCE_PG_LANES_DEFAULT 4 /* connections that decide */
#define ONCE_PG_LANES_MAX 64
#define ONCE_PG_LOOKS_MAX 4                /* connections that lists and objects are read over */
#define ONCE_PG_BATCH_COUNT_MAX 512        /* calls of one round trip, */
#define ONCE_PG_BATCH_SIZE_MAX (1 << 23)   /* and their bytes; one call alone may be larger */
#define ONCE_PG_ANSWERS_SIZE_MAX (1 << 26) /* bytes of the answers of one round trip */
#define ONCE_PG_BATCHES_IN_FLIGHT_MAX 2    /* of one connection */
#define ONCE_PG_WAIT_MS 10000LL            /* a call that is not settled by then is given up */
#define ONCE_PG_CLOSE_MS 2000LL            /* the same, of a store that is being closed */
#define ONCE_PG_CONNECT_MS 5000LL          /* one attempt to connect, all hosts together */
#define ONCE_PG_BACKOFF_MS_MAX 1000LL      /* between two attempts */
#define ONCE_PG_LOCK_MS 200LL              /* a row that someone else holds is waited for */
#define ONCE_PG_BUSY_MS 100LL              /* come back later, of a key that a transaction holds */
#define ONCE_PG_SESSION_MS 2000LL          /* a lost session may end by itself, then it is ended */
#define ONCE_PG_TICK_MS 1000LL             /* the store's time is written, settings looked at */
#define ONCE_PG_OPEN_COUNT_MAX 100000      /* open operations are counted no further */
#define ONCE_PG_APPLY_OPS_MAX 256          /* applies, merges and values of one transaction, */
#define ONCE_PG_BODIES_SIZE_MAX (1 << 26)  /* and the objects that they are decided on; one call */
#define ONCE_PG_OBJECT_SIZE_MAX (1 << 22)  /* alone may have more, each of them of this size */

/* SQLite. */
#define ONCE_LITE_TICK_MS 1000LL              /* store time is written down so often, at least */
#define ONCE_LITE_ANSWER_SIZE_MAX (1 << 28)   /* JSON that is told; a mergeable being merged */
#define ONCE_LITE_SEEN_MS_DEFAULT 604800000LL /* a message is known to its consumers: 7 d */
#define ONCE_LITE_SWEEP_DEFAULT 1000          /* rows of each kind */
#define ONCE_LITE_SWEEP_MAX 100000
#define ONCE_LITE_TAKE_MAX 1000 /* messages of the outbox at once */

/* JSON bodies made canonical for a fingerprint. Bodies come from anyone, and the dearest numbers
 * (subnormal ones) cost half a second of CPU for each MiB; fingerprint larger bodies raw. */
#define ONCE_JSON_SIZE_MAX (1 << 20)
#define ONCE_JSON_DEPTH_MAX 128

#endif
