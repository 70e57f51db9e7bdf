// A libnvidia-ml.so.1 for tests: two GPUs, each of which does what the file $NVML_STUB/N says: "ok", "hang", "lost", "mig",
// "unsupported", or "crash". A hanging GPU holds its caller until the file says something else.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10, LOST = 15 };

typedef struct gpu { int number; unsigned long long xids; } gpu;
static gpu gpus[2] = {{0, 0}, {1, 1}};

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
	if (strcmp(uuid, "GPU-0") && strcmp(uuid, "GPU-1"))
		return NOT_FOUND;
	*device = &gpus[uuid[4] - '0'];
	return mode(*device, 0) == LOST ? LOST : OK;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **device) { (void)pci; (void)device; return NOT_FOUND; }

struct memory { unsigned version; unsigned long long total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(gpu *gpu, struct memory *memory)
{
	memory->total = 80ull << 30;
	memory->used = 8ull << 30;
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
