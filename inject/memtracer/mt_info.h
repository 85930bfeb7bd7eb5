/* SPDX-License-Identifier: MIT-0 */
/*
 * mt_info.h - mtrun.h by the names that programs written for MiniOB's MemTracer use. With this
 * directory in the include path such a program needs no libmemtracer.so, neither to link nor to
 * run. Licence: see mtrun.h.
 */
#ifndef MTRUN_MEMTRACER_MT_INFO_H
#define MTRUN_MEMTRACER_MT_INFO_H

#include "../mtrun.h"

#ifdef __cplusplus
namespace memtracer {

inline size_t allocated_memory()
{
	return mtrun_allocated_memory();
}

inline size_t meta_memory()
{
	return mtrun_meta_memory();
}

inline size_t memory_limit()
{
	return mtrun_memory_limit();
}

} // namespace memtracer
#endif
#endif
