// SPDX-License-Identifier: GPL-3.0-or-later
/* api - the same in C++. */
#include "api.c"
