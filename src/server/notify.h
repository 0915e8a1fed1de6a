/* SPDX-License-Identifier: Apache-2.0
 *
 * Tells a service manager how far the server is: one datagram to $NOTIFY_SOCKET, as systemd's
 * Type=notify expects it. Without that variable nothing happens.
 */
#ifndef ONCE_SERVER_NOTIFY_H
#define ONCE_SERVER_NOTIFY_H

/* lines: "READY=1", "STATUS=…", one to a line. What cannot be sent is lost. */
void once__notify(const char *lines);
/* "RELOADING=1" with the time that goes with it; READY=1 follows when it is over. */
void once__notify_reloading(void);

#endif
