/* A stand-in for NVIDIA's driver library, at its own C interface: two cards with known figures.
 * The second one does not support power and energy readings, as some cards do not. */

enum { SUCCESS = 0, NOT_SUPPORTED = 3 };

typedef struct { unsigned int gpu, memory; } Utilization;
typedef struct { unsigned long long total, free, used; } Memory;

static int cards[2] = {0, 1};

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlInitWithFlags(unsigned int flags) { return (void)flags, SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return code == NOT_SUPPORTED ? "Not Supported" : "?"; }

int nvmlDeviceGetCount_v2(unsigned int *count) { return *count = 2, SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, int **device) {
    return *device = &cards[index], SUCCESS;
}

int nvmlDeviceGetUtilizationRates(int *device, Utilization *out) {
    return *out = (Utilization){50 + 25 * (unsigned)*device, 10}, SUCCESS;
}

int nvmlDeviceGetMemoryInfo(int *device, Memory *out) {
    unsigned long long gib = 1ull << 30, used = (1 + (unsigned)*device) * gib;
    return *out = (Memory){16 * gib, 16 * gib - used, used}, SUCCESS;
}

int nvmlDeviceGetPowerUsage(int *device, unsigned int *milliwatts) {
    if (*device == 1) return NOT_SUPPORTED;
    return *milliwatts = 250000, SUCCESS;
}

/* 1,234.5 J since the driver was loaded, and 250 J more at every question. */
int nvmlDeviceGetTotalEnergyConsumption(int *device, unsigned long long *millijoules) {
    static unsigned long long counted = 1234500 - 250000;
    if (*device == 1) return NOT_SUPPORTED;
    return *millijoules = counted += 250000, SUCCESS;
}

int nvmlDeviceGetTemperature(int *device, int sensor, unsigned int *celsius) {
    return (void)sensor, *celsius = 60 + (unsigned)*device, SUCCESS;
}

/* Newer pynvml asks in this form; the struct is {version, sensor, temperature}. */
int nvmlDeviceGetTemperatureV(int *device, int *query) { return query[2] = 60 + *device, SUCCESS; }

/* The first card runs at 1,200 of 1,500 MHz; the second does not tell its highest clock. */
int nvmlDeviceGetClockInfo(int *device, int type, unsigned int *mhz) {
    return (void)device, (void)type, *mhz = 1200, SUCCESS;
}
int nvmlDeviceGetMaxClockInfo(int *device, int type, unsigned int *mhz) {
    return (void)type, *mhz = *device == 0 ? 1500 : 0, SUCCESS;
}
