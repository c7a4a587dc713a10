package gpu

import "github.com/hostler/hostler/taskcatalog"

// Vendor is one vendor's libraries in this process, which is always a child (see
// Child). They are opened at first use: making a Vendor never fails. Errors carry
// one of the codes of this package.
type Vendor interface {
	// Name is nvidia or amd.
	Name() string
	// Survey lists the GPUs, in the order of their PCI addresses, and the
	// libraries. A library that is missing, or does not fit its driver, is a fact
	// and not an error.
	Survey() ([]taskcatalog.GPUFacts, []taskcatalog.LibraryFacts, error)
	// Holders is the library's own lists of processes on a GPU and its instances.
	Holders(uuid string) ([]Holder, error)
	// State is what a GPU is set to, its health, and what only a reset sets back.
	State(uuid string) (State, error)
	// Apply sets what want names and says what did not take. A setting that is
	// already as wanted is not touched.
	Apply(uuid string, want Settings) ([]Deviation, error)
	// Reset resets the GPUs together. CodeResetUnsupported where the library has
	// no such call.
	Reset(uuids []string) error
	// CleanLocal clears what is not device memory: registers and local data
	// shares. CodeUnsupported where the library has no such call.
	CleanLocal(uuid string) error
	// OpenMemory opens the memory of a GPU or of one instance of it. The calling
	// goroutine must be locked to its thread, and be the only one to use Memory.
	OpenMemory(uuid string) (Memory, error)
	Close() error
}

// Memory is one device's memory, as a program of a tenant could get it.
type Memory interface {
	Info() (MemoryInfo, error)
	// Alloc takes memory without clearing it: CodeOutOfMemory when so much in one
	// piece cannot be had. Sizes are multiples of 8 bytes.
	Alloc(bytes uint64) (Chunk, error)
	// Fill writes p.Word(offset/8+i) at word i of c.
	Fill(c Chunk, p Pattern, offset uint64) error
	// Zero clears c with the library's own memset, so it is also what a plain
	// memset costs.
	Zero(c Chunk) error
	// Mismatches counts the words of c that are not as Fill leaves them.
	Mismatches(c Chunk, p Pattern, offset uint64) (uint64, error)
	// NonZero counts the words of c that are not zero.
	NonZero(c Chunk) (uint64, error)
	// Read copies len(into) bytes, from byte `at` of c, to the host.
	Read(c Chunk, at uint64, into []byte) error
	// ComparedOnGPU says whether Mismatches and NonZero count on the GPU, or on
	// the host over all that they read back.
	ComparedOnGPU() bool
	Free(c Chunk) error
	Close() error
}

// MemoryInfo is how much memory a device has, in bytes.
type MemoryInfo struct {
	// Total is all memory of the device, or of the instance.
	Total uint64 `json:"total_bytes"`
	// Free is what could still be had now.
	Free uint64 `json:"free_bytes"`
	// Reserved is what the driver keeps for itself; nil where it does not say.
	Reserved *uint64 `json:"reserved_bytes,omitempty"`
}

// Chunk is memory that Alloc took.
type Chunk struct {
	Address uint64 // on the device
	Bytes   uint64
}

// Holder is a process that a vendor's library lists on a GPU.
type Holder struct {
	// PID is as the library says it: of the machine's first PID namespace, or
	// not, where the process is in a container.
	PID  uint32 `json:"pid"`
	Kind string `json:"kind"` // compute, graphics, mps
	// Instance is the uuid of the instance it is on, where there are instances.
	Instance    string  `json:"instance,omitempty"`
	MemoryBytes *uint64 `json:"memory_bytes,omitempty"`
}

// Settings are what a tenant with root may have changed on a GPU.
type Settings = taskcatalog.GPUSettings

// Deviation is a setting that is not as it was wanted.
type Deviation = taskcatalog.GPUDeviation

// State is a GPU at one moment.
type State struct {
	Settings Settings `json:"settings"`
	// Pending are the settings that the next reset puts in force, where they
	// differ from those in force.
	Pending Settings `json:"pending"`
	Health  Health   `json:"health"`
	// Counters grow while the device runs and start again at zero with a reset:
	// one that is lower than it was is a witness of a reset. By name, such as
	// energy_mj.
	Counters map[string]uint64 `json:"counters,omitempty"`
	// Nodes are the device files of this GPU alone, such as /dev/nvidia0, and those
	// of partitions that may be a part of it.
	Nodes []string `json:"nodes,omitempty"`
	// Domain names the NVLink domain or XGMI hive that is reset as one; empty
	// where the GPU is reset alone.
	Domain string `json:"domain,omitempty"`
}

// Health is what decides whether a GPU may be given to the next tenant.
type Health = taskcatalog.GPUHealth
