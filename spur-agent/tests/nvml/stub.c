// A libnvidia-ml.so.1 for tests: two GPUs, each of which does what the file $NVML_STUB/N says: "ok", "hang", "lost", "mig",
// "unsupported", or "crash". A hanging GPU holds its caller until the file says something else. One that says "mig" has three instances.
// Built with -DOLD, it has no numbers of instances.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10, LOST = 15 };

typedef struct gpu { int number; unsigned long long xids; const char *uuid, *name; unsigned gi, ci; } gpu;
static gpu gpus[2] = {{0, 0, "GPU-0", "NVIDIA H200", 0, 0}, {1, 1, "GPU-1", "NVIDIA H200", 0, 0}};
// Of the first GPU. Two compute instances of one GPU instance, and one of another, at the index that the driver gives to its place.
static gpu parts[3] = {
	{0, 0, "MIG-a", "NVIDIA H200 MIG 1c.3g.71gb", 1, 0},
	{0, 0, "MIG-b", "NVIDIA H200 MIG 1c.3g.71gb", 1, 1},
	{0, 0, "MIG-c", "NVIDIA H200 MIG 1g.18gb", 9, 0},
};
static int is_part(gpu *gpu) { return gpu->uuid[0] == 'M'; }

static void word(int number, char *into, size_t size)
{
	char path[4096];
	FILE *file;
	snprintf(path, sizeof path, "%s/%d", getenv("NVML_STUB"), number);
	into[0] = 0;
	file = fopen(path, "r");
	if (!file)
		return;
	if (fgets(into, size, file))
		into[strcspn(into, "\n")] = 0;
	fclose(file);
}

// What a call for this GPU comes to; utilization is what MIG does not have.
static int mode(gpu *gpu, int utilization)
{
	char now[32];
	for (;;) {
		word(gpu->number, now, sizeof now);
		if (strcmp(now, "hang"))
			break;
		usleep(20000);
	}
	if (!strcmp(now, "lost"))
		return LOST;
	if (!strcmp(now, "crash"))
		abort();
	if (!strcmp(now, "unsupported") || (utilization && !strcmp(now, "mig")))
		return NOT_SUPPORTED;
	return OK;
}

static unsigned long long micros(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000000ull + now.tv_nsec / 1000;
}

int nvmlInit_v2(void) { return OK; }
int nvmlShutdown(void) { return OK; }
int nvmlSystemGetDriverVersion(char *text, unsigned length) { snprintf(text, length, "580.1"); return OK; }

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
	*device = NULL;
	for (int at = 0; at < 2; at++)
		if (!strcmp(uuid, gpus[at].uuid))
			*device = &gpus[at];
	for (int at = 0; at < 3; at++)
		if (!strcmp(uuid, parts[at].uuid))
			*device = &parts[at];
	if (!*device)
		return NOT_FOUND;
	return mode(*device, 0) == LOST ? LOST : OK;
}
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = &gpus[index]; return OK; }
int nvmlDeviceGetUUID(gpu *gpu, char *text, unsigned length) { snprintf(text, length, "%s", gpu->uuid); return OK; }
int nvmlDeviceGetName(gpu *gpu, char *text, unsigned length) { snprintf(text, length, "%s", gpu->name); return OK; }
int nvmlDeviceGetMigMode(gpu *gpu, unsigned *current, unsigned *pending)
{
	char now[32];
	word(gpu->number, now, sizeof now);
	*current = *pending = !strcmp(now, "mig");
	return gpu->number ? NOT_SUPPORTED : OK;
}
int nvmlDeviceGetMaxMigDeviceCount(gpu *gpu, unsigned *count) { (void)gpu; *count = 7; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(gpu *gpu, unsigned index, void **device)
{
	static const int at[7] = {0, 1, -1, -1, -1, 2, -1};
	(void)gpu;
	if (at[index] < 0)
		return NOT_FOUND;
	*device = &parts[at[index]];
	return OK;
}
#ifndef OLD
int nvmlDeviceGetGpuInstanceId(gpu *gpu, unsigned *id) { *id = gpu->gi; return OK; }
int nvmlDeviceGetComputeInstanceId(gpu *gpu, unsigned *id) { *id = gpu->ci; return OK; }
#endif
int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **device) { (void)pci; (void)device; return NOT_FOUND; }

struct memory { unsigned version; unsigned long long total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(gpu *gpu, struct memory *memory)
{
	memory->total = (is_part(gpu) ? 16ull : 80ull) << 30;
	memory->used = (is_part(gpu) ? 2ull : 8ull) << 30;
	return mode(gpu, 0);
}
int nvmlDeviceGetPowerUsage(gpu *gpu, unsigned *power) { *power = 300000; return mode(gpu, 0); }
int nvmlDeviceGetTemperature(gpu *gpu, int sensor, unsigned *degrees) { (void)sensor; *degrees = 50; return mode(gpu, 0); }
int nvmlDeviceGetClockInfo(gpu *gpu, int kind, unsigned *clock) { *clock = kind == 1 ? 1500 : 2600; return mode(gpu, 0); }
int nvmlDeviceGetTotalEnergyConsumption(gpu *gpu, unsigned long long *energy) { *energy = micros() / 1000; return mode(gpu, 0); }
struct violation { unsigned long long reference, time; };
int nvmlDeviceGetViolationStatus(gpu *gpu, int policy, struct violation *told) { told->reference = 1; told->time = policy * 1000 + 5000; return mode(gpu, 0); }
int nvmlDeviceGetTotalEccErrors(gpu *gpu, int kind, int counter, unsigned long long *count) { (void)counter; *count = kind + 1; return mode(gpu, 0); }
struct rates { unsigned gpu, memory; };
int nvmlDeviceGetUtilizationRates(gpu *gpu, struct rates *rates) { rates->gpu = 99; rates->memory = 30; return mode(gpu, 1); }

struct sample { unsigned long long at; union { double d; unsigned u; unsigned long long q; } value; };
int nvmlDeviceGetSamples(gpu *gpu, int kind, unsigned long long seen, int *type, unsigned *count, struct sample *samples)
{
	unsigned given = 0, room = *count;
	unsigned long long now = micros() / 100000 * 100000;
	(void)kind;
	*type = 1;
	if (mode(gpu, 1))
		return mode(gpu, 1);
	for (unsigned back = 20; back-- > 0;) {
		unsigned long long at = now - back * 100000ull;
		if (at <= seen)
			continue;
		if (samples && given < room) {
			samples[given].at = at;
			samples[given].value.u = at / 100000 % 2 ? 80 : 40;
		}
		given++;
	}
	*count = given;
	return OK;
}

struct process { unsigned pid; unsigned long long memory; unsigned gi, ci; };
int nvmlDeviceGetComputeRunningProcesses_v3(gpu *gpu, unsigned *count, struct process *all)
{
	unsigned room = *count;
	if (mode(gpu, 0))
		return mode(gpu, 0);
	*count = 1;
	if (!all || room < 1)
		return INSUFFICIENT_SIZE;
	all[0] = (struct process){4242, 5ull << 30, 0xffffffff, 0xffffffff};
	if (is_part(gpu))
		all[0] = (struct process){5000 + gpu->gi * 10 + gpu->ci, 1ull << 30, gpu->gi, gpu->ci};
	return OK;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(gpu *gpu, unsigned *count, struct process *all) { (void)all; *count = 0; return mode(gpu, 0); }

struct use { unsigned pid; unsigned long long at; unsigned sm, memory, encoder, decoder; };
int nvmlDeviceGetProcessUtilization(gpu *gpu, struct use *all, unsigned *count, unsigned long long seen)
{
	unsigned room = *count;
	unsigned long long now = micros();
	if (mode(gpu, 1))
		return mode(gpu, 1);
	*count = 2;
	if (!all || room < 2)
		return INSUFFICIENT_SIZE;
	if (now - seen < 1000)
		return NOT_FOUND;
	all[0] = (struct use){4242, now, 60, 1, 0, 0};
	all[1] = (struct use){0, 0, 77, 0, 0, 0};
	return OK;
}

int nvmlEventSetCreate(void **set) { *set = malloc(sizeof(gpu *)); return OK; }
int nvmlEventSetFree(void *set) { free(set); return OK; }
int nvmlDeviceRegisterEvents(gpu *gpu, unsigned long long kinds, void *set) { (void)kinds; *(struct gpu **)set = gpu; return OK; }
struct event { void *device; unsigned long long kind, data; unsigned gi, ci; };
int nvmlEventSetWait_v2(void *set, struct event *event, unsigned timeout)
{
	gpu *gpu = *(struct gpu **)set;
	(void)timeout;
	if (!gpu->xids)
		return TIMEOUT;
	gpu->xids--;
	*event = (struct event){gpu, 8, 79, 0, 0};
	return OK;
}
