/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Keeps the CPU for one event. Since Linux 7 a program at a tracepoint can be interrupted by another task, and the kernel leaves the
 * program out for what that task does meanwhile; this makes the time in which that can happen a few instructions. It also counts what it
 * left out: Meter::missed. Switches of tasks need none of it.
 */
#ifndef SPUR_METER_HOLD_H
#define SPUR_METER_HOLD_H

#include "helpers.h"

/* Since Linux 6.10; elsewhere their addresses are 0. */
extern void bpf_preempt_disable(void) __attribute__((section(".ksyms"), weak));
extern void bpf_preempt_enable(void) __attribute__((section(".ksyms"), weak));

SPUR_INLINE void hold_cpu(void)
{
	if (bpf_preempt_disable)
		bpf_preempt_disable();
}

SPUR_INLINE void release_cpu(void)
{
	if (bpf_preempt_enable)
		bpf_preempt_enable();
}

/* Evaluates to what the call returns. */
#define HOLDING_CPU(call)                                                                                                      \
	({                                                                                                                     \
		int held_;                                                                                                     \
		hold_cpu();                                                                                                    \
		held_ = (call);                                                                                                \
		release_cpu();                                                                                                 \
		held_;                                                                                                         \
	})

#endif
