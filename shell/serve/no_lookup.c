// SPDX-License-Identifier: GPL-3.0-or-later
#include <netdb.h>
#include <stddef.h>

/*
 * libevent can look up names; address.c takes none, so nobody asks it to. These stand in for the C
 * library's functions: a static program that has those cannot look up anything either, but loads
 * shared libraries of the machine that it runs on to find that out.
 */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
		struct addrinfo **out)
{
	(void)name, (void)service, (void)hints, (void)out;
	return EAI_FAIL;
}

void freeaddrinfo(struct addrinfo *list) { (void)list; }

struct servent *getservbyname(const char *name, const char *protocol)
{
	(void)name, (void)protocol;
	return NULL;
}

struct protoent *getprotobynumber(int number)
{
	(void)number;
	return NULL;
}
