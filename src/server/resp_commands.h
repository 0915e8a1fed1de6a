/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that the command table points at, by the file that has them, and what those files
 * share. A start answers, or says what is under way; a finish answers.
 */
#ifndef ONCE_SERVER_RESP_COMMANDS_H
#define ONCE_SERVER_RESP_COMMANDS_H

#include "server/command.h"

#define ONCE__START(name)                                                                          \
    enum once__next once__resp_##name(struct once__request *request, struct once__out *out)
#define ONCE__FINISH(name)                                                                         \
    void once__resp_##name##_finish(struct once__request *request, struct once__out *out)

/* resp_op.c */
ONCE__START(begin);
ONCE__FINISH(begin);
ONCE__START(complete);
ONCE__START(fail);
ONCE__START(checkpoint);
ONCE__START(renew);
ONCE__START(resolve);
ONCE__START(forget);
ONCE__FINISH(owner); /* of all those between begin and here */
ONCE__START(get);
ONCE__FINISH(get);

/* resp_list.c */
ONCE__START(list);
ONCE__FINISH(list);
ONCE__START(namespace);

/* resp_history.c */
ONCE__START(history);
ONCE__FINISH(history);

/* resp_apply.c */
ONCE__START(apply);
ONCE__FINISH(apply);
ONCE__START(merge);
ONCE__FINISH(merge);

/* resp_object.c */
ONCE__START(object);
ONCE__FINISH(object);
ONCE__START(objects);
ONCE__FINISH(objects);
ONCE__START(items);
ONCE__FINISH(items);

/* resp_replica.c */
ONCE__START(delta);
ONCE__FINISH(delta);
ONCE__START(changes);
ONCE__FINISH(changes);
ONCE__START(changes_merge);
ONCE__FINISH(changes_merge);

/* resp_value.c */
ONCE__START(value_get);
ONCE__FINISH(value_get);
ONCE__START(value_strlen);
ONCE__FINISH(value_strlen);
ONCE__START(value_type);
ONCE__FINISH(value_type);
ONCE__START(value_mget);
ONCE__FINISH(value_mget);
ONCE__START(value_exists);
ONCE__FINISH(value_exists);
ONCE__START(value_del);
ONCE__FINISH(value_del);

/* resp_set.c */
ONCE__START(value_set);
ONCE__FINISH(value_set);
ONCE__START(value_setex);
ONCE__START(value_setnx);
ONCE__FINISH(value_setnx);

/* resp_expire.c */
ONCE__START(value_expire);
ONCE__FINISH(value_expire);
ONCE__START(value_ttl);
ONCE__FINISH(value_ttl);

/* resp_connection.c */
ONCE__START(ping);
ONCE__START(echo);
ONCE__START(hello);
ONCE__FINISH(hello);
ONCE__START(auth);
ONCE__FINISH(auth);
ONCE__START(select);
ONCE__START(quit);
ONCE__START(reset);

/* resp_client.c */
ONCE__START(client_setinfo);
ONCE__START(client_setname);
ONCE__START(client_getname);
ONCE__START(client_id);
ONCE__START(client_list);
ONCE__START(client_info);
ONCE__START(client_no);

/* resp_info.c */
ONCE__START(info);
ONCE__FINISH(info);
ONCE__START(dbsize);
ONCE__FINISH(dbsize);
ONCE__START(time);

/* resp_stats.c */
ONCE__START(stats);
ONCE__FINISH(stats);

/* resp_command.c */
ONCE__START(command);
ONCE__START(command_count);
ONCE__START(command_docs);
ONCE__START(command_getkeys);
ONCE__START(command_info);
ONCE__START(command_list);
ONCE__START(subcommand_help); /* CLIENT HELP and so on */
ONCE__START(once_help);

/* resp_config.c */
ONCE__START(config_get);

/* ---- Shared ---------------------------------------------------------------------------------- */

/* The version of Redis whose answers ours follow. */
#define ONCE__REDIS_VERSION "7.0.0"

/* Is a name of the connection: printable, without blanks, not too long? "" is. */
bool once__client_name_ok(struct once_bytes name);
/* Does the pattern (*, ?, [a-z], [^a], \x) match the whole text? Without regard to case. */
bool once__glob(struct once_bytes pattern, struct once_bytes text);

/* The namespace of values, and a call on one of its keys. */
void once__value_call(struct once__call *call, enum once_call_kind kind, struct once_bytes key);
/* May these be keys of values? Else the reason was answered. */
bool once__value_keys_ok(struct once__out *out, const struct once_bytes *keys, size_t count);
/* Was any of the calls refused by the store, or found what is no value? Then that was answered. */
bool once__value_failed(const struct once__request *request, struct once__out *out);
/* Is there a value? */
bool once__value_present(const struct once_reply *reply);
/* Wall time now, in milliseconds since 1970. */
once_ms once__wall_ms(void);

/* How far away a value may end: one millisecond less than "never". */
#define ONCE__EXPIRE_MS_MAX (ONCE_RETENTION_MS_MAX - 1)

enum once__expire_unit { ONCE__EXPIRE_EX, ONCE__EXPIRE_PX, ONCE__EXPIRE_EXAT, ONCE__EXPIRE_PXAT };
struct once__expire {
    once_ms ttl_ms;   /* one of the two is not 0 */
    once_ms until_ms; /* of EXAT, PXAT */
    bool over;        /* it lies in the past already */
};
/* Reads the time of EX, PX, EXAT, PXAT. Redis's own words on failure: false, and answered.
 * positive: a time of 0 or less is refused. */
bool once__expire_read(const struct once__request *request, struct once__out *out,
                       struct once_bytes arg, enum once__expire_unit unit, bool positive,
                       struct once__expire *ret_expire);

#endif
