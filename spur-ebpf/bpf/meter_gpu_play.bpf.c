/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* For tests: the same counting as in meter_gpu.bpf.c, with events, times and schedulers that a test makes up (BPF_PROG_TEST_RUN). */
#include "meter_gpu.h"

char LICENSE[] SEC("license") = "GPL";

SPUR_INLINE struct spur_meter_gpu_ring *played_ring(spur_u64 key)
{
	struct spur_meter_gpu_ring new = {.device = "played", .name = "ring"};

	new.name[4] = (char)('0' + (key & 7));
	map_update(&gpu_rings, &key, &new, IF_ABSENT);
	return map_lookup(&gpu_rings, &key);
}

/* event (0: queued, 1: run, 2: done), fence, ring, time */
SEC("raw_tp")
int play(spur_u64 *ctx)
{
	spur_u64 event = ctx[0], fence = ctx[1], ring = ctx[2], time_ns = ctx[3];
	struct spur_meter_gpu_ring *row = played_ring(ring);
	struct spur_meter_place place = {};

	if (event == 0) {
		place_of_current(&place);
		gpu_queued(fence, &place, time_ns);
	} else if (event == 1) {
		gpu_run(fence, ring, time_ns);
	} else if (row) {
		gpu_done(fence, row, time_ns);
	}
	return 0;
}
