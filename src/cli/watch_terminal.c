/* SPDX-License-Identifier: Apache-2.0
 *
 * The terminal of `once watch`: a screen of its own, keys without Enter. Whatever ends the process,
 * but SIGKILL, gives the terminal back as it was: leave, exit, and a handler of the signals that
 * end it, which does only what a handler may. Ctrl-Z gives it back too, and fg takes it again.
 */
#include "cli/watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "cli/reach_server.h"

enum { WIDTH_DEFAULT = 80, HEIGHT_DEFAULT = 24 };

/* Another screen, no cursor, no wrapping of lines; and back. */
static const char enter_text[] = "\033[?1049h\033[?25l\033[?7l";
static const char leave_text[] = "\033[?7h\033[?25h\033[0m\033[?1049l";

static const int deadly[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGABRT};

static volatile sig_atomic_t taken;    /* the screen is ours */
static volatile sig_atomic_t has_keys; /* and stdin is a terminal, whose settings are in `before` */
static volatile sig_atomic_t resized;
static volatile sig_atomic_t stopped; /* Ctrl-Z */
static struct termios before;

bool watch_terminal_there(void)
{
    const char *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && term && term[0] && strcmp(term, "dumb") != 0;
}

static void put(const char *text, size_t size)
{
    while (size > 0) {
        ssize_t written = write(STDOUT_FILENO, text, size);

        if (written < 0 && errno != EINTR)
            return;
        if (written > 0) {
            text += written;
            size -= (size_t)written;
        }
    }
}

/* Only what a handler may call. */
static void give_back(void)
{
    if (!taken)
        return;
    taken = 0;
    put(leave_text, sizeof(leave_text) - 1);
    if (has_keys)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static void on_deadly(int number)
{
    give_back();
    (void)signal(number, SIG_DFL);
    (void)raise(number); /* when this returns */
}

static void on_resize(int number)
{
    (void)number;
    resized = 1;
}

static void on_stop(int number)
{
    (void)number;
    stopped = 1;
}

static void handle(int number, void (*handler)(int number))
{
    struct sigaction action = {.sa_handler = handler}; /* no SA_RESTART: poll is to return */

    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
}

static void take(void)
{
    struct termios keys;

    has_keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0;
    taken = 1;
    if (has_keys) {
        keys = before;
        keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        keys.c_cc[VMIN] = 0;
        keys.c_cc[VTIME] = 0;
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &keys);
    }
    put(enter_text, sizeof(enter_text) - 1);
}

void watch_terminal_enter(void)
{
    for (size_t i = 0; i < sizeof(deadly) / sizeof(deadly[0]); i++)
        handle(deadly[i], on_deadly);
    handle(SIGWINCH, on_resize);
    handle(SIGTSTP, on_stop);
    (void)atexit(give_back);
    take();
}

void watch_terminal_leave(void)
{
    give_back();
}

void watch_terminal_size(size_t *ret_width, size_t *ret_height)
{
    struct winsize size = {0};

    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    *ret_width = size.ws_col > 0 ? size.ws_col : WIDTH_DEFAULT;
    *ret_height = size.ws_row > 0 ? size.ws_row : HEIGHT_DEFAULT;
}

/* True: something that means quit. The rest of what was typed is thrown away. */
static bool read_keys(bool *ret_end)
{
    char typed[64];
    ssize_t size = read(STDIN_FILENO, typed, sizeof(typed));

    *ret_end = size == 0 || (size < 0 && errno != EINTR && errno != EAGAIN);
    for (ssize_t i = 0; i < size; i++) {
        if (typed[i] == 'q' || typed[i] == 'Q')
            return true;
    }
    return false;
}

enum watch_event watch_terminal_wait(int news_fd, once_ms until_ms)
{
    static bool ended; /* nobody types any more */

    for (;;) {
        once_ms left_ms = until_ms - reach_now_ms();
        struct pollfd both[] = {{.fd = has_keys && !ended ? STDIN_FILENO : -1, .events = POLLIN},
                                {.fd = news_fd, .events = POLLIN}};

        if (stopped) {
            stopped = 0;
            give_back();
            (void)raise(SIGSTOP);
            take();
            return WATCH_REDRAW;
        }
        if (resized) {
            resized = 0;
            return WATCH_REDRAW;
        }
        if (left_ms <= 0)
            return WATCH_TICK;
        if (poll(both, 2, (int)left_ms) <= 0)
            continue;
        if (both[0].revents != 0 && read_keys(&ended))
            return WATCH_QUIT;
        if (both[1].revents != 0)
            return WATCH_NEWS;
    }
}
