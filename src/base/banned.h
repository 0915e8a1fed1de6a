/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that do not compile in Once: unbounded writes, hidden state, silent parse errors.
 * The build includes this file ahead of every source file of ours, after the system headers.
 */
#ifndef ONCE_BASE_BANNED_H
#define ONCE_BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ONCE_BANNED(name) once_banned_function_##name

#undef strcpy
#define strcpy ONCE_BANNED(strcpy)
#undef strncpy
#define strncpy ONCE_BANNED(strncpy)
#undef strcat
#define strcat ONCE_BANNED(strcat)
#undef strncat
#define strncat ONCE_BANNED(strncat)
#undef sprintf
#define sprintf ONCE_BANNED(sprintf)
#undef vsprintf
#define vsprintf ONCE_BANNED(vsprintf)
#undef gets
#define gets ONCE_BANNED(gets)
#undef strtok
#define strtok ONCE_BANNED(strtok)
#undef atoi
#define atoi ONCE_BANNED(atoi)
#undef atol
#define atol ONCE_BANNED(atol)
#undef atof
#define atof ONCE_BANNED(atof)
#undef rand
#define rand ONCE_BANNED(rand)
#undef srand
#define srand ONCE_BANNED(srand)
#undef localtime
#define localtime ONCE_BANNED(localtime)
#undef gmtime
#define gmtime ONCE_BANNED(gmtime)
#undef ctime
#define ctime ONCE_BANNED(ctime)
#undef asctime
#define asctime ONCE_BANNED(asctime)
#undef alloca
#define alloca ONCE_BANNED(alloca)

#endif
