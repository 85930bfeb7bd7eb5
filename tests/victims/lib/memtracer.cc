/* SPDX-License-Identifier: GPL-3.0-or-later */
/* memtracer - stands for MiniOB's libmemtracer.so: the functions that it exports. */
#include <cstddef>

namespace memtracer {

class Tracer {
public:
	size_t allocated = 111, meta = 222, limit = 333;
};
static Tracer tracer;

size_t allocated_memory()
{
	return tracer.allocated;
}

size_t meta_memory()
{
	return tracer.meta;
}

size_t memory_limit()
{
	return tracer.limit;
}

}
