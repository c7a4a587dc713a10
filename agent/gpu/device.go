package gpu

import "github.com/hostler/hostler/taskcatalog"

// Vendor is a vendor's libraries in this process, always a child (see Child). The libraries are
// opened at first use: making a Vendor never fails. Errors carry a code of this package.
type Vendor interface {
	// Name is nvidia or amd.
	Name() string
	// Survey lists the GPUs, in the order of their PCI addresses, and the libraries. A library that
	// is missing, or does not fit its driver, is a fact and not an error.
	Survey() ([]taskcatalog.GPUFacts, []taskcatalog.LibraryFacts, error)
	// Holders is the library's own lists of processes on a GPU and its instances.
	Holders(uuid string) ([]Holder, error)
	// State returns a GPU's settings, its health, and the values that only a reset sets back.
	State(uuid string) (State, error)
	// Look reads the health of all GPUs, and changes nothing: no call in it clears what it reads.
	// It is short, because a tenant may use the GPUs meanwhile.
	Look() (Looks, error)
	// Apply sets the settings in want and returns those that did not take. A setting that already
	// has the wanted value is not touched.
	Apply(uuid string, want Settings) ([]Deviation, error)
	// Reset resets the GPUs together. CodeResetUnsupported if the library has no such call.
	Reset(uuids []string) error
	// CleanLocal clears registers and local data shares, which are not device memory.
	// CodeUnsupported if the library has no such call.
	CleanLocal(uuid string) error
	// OpenMemory opens the memory of a GPU or of an instance. The calling goroutine must be locked
	// to its thread, and be the only user of the Memory.
	OpenMemory(uuid string) (Memory, error)
	Close() error
}

// Memory is a device's memory, as a tenant's program could get it.
type Memory interface {
	Info() (MemoryInfo, error)
	// Alloc takes memory without clearing it: CodeOutOfMemory if no piece of this size is left.
	// Sizes are multiples of 8 bytes.
	Alloc(bytes uint64) (Chunk, error)
	// Fill writes p.Word(offset/8+i) at word i of c.
	Fill(c Chunk, p Pattern, offset uint64) error
	// Zero clears c with the library's own memset, so its time is the cost of a plain memset.
	Zero(c Chunk) error
	// Mismatches counts the words of c that differ from the words written by Fill.
	Mismatches(c Chunk, p Pattern, offset uint64) (uint64, error)
	// NonZero counts the words of c that are not zero.
	NonZero(c Chunk) (uint64, error)
	// Read copies len(into) bytes, from byte `at` of c, to the host.
	Read(c Chunk, at uint64, into []byte) error
	// ComparedOnGPU reports whether Mismatches and NonZero count on the GPU. Otherwise they read
	// everything back and count on the host.
	ComparedOnGPU() bool
	Free(c Chunk) error
	Close() error
}

// MemoryInfo describes a device's memory, in bytes.
type MemoryInfo struct {
	// Total is all memory of the device, or of the instance.
	Total uint64 `json:"total_bytes"`
	// Free is the memory available now.
	Free uint64 `json:"free_bytes"`
	// Reserved is the driver's own reserve; nil if unknown.
	Reserved *uint64 `json:"reserved_bytes,omitempty"`
}

// Chunk is memory taken by Alloc.
type Chunk struct {
	Address uint64 // on the device
	Bytes   uint64
}

// Holder is a process that a vendor's library lists on a GPU.
type Holder struct {
	// PID is the number reported by the library: of the machine's first PID namespace or, for a
	// process in a container, possibly of another namespace.
	PID  uint32 `json:"pid"`
	Kind string `json:"kind"` // compute, graphics, mps
	// Instance is the uuid of the instance used by the process, on a partitioned GPU.
	Instance    string  `json:"instance,omitempty"`
	MemoryBytes *uint64 `json:"memory_bytes,omitempty"`
}

// Settings are the settings of a GPU that a tenant with root may have changed.
type Settings = taskcatalog.GPUSettings

// Deviation is a setting that differs from the wanted value.
type Deviation = taskcatalog.GPUDeviation

// State is the state of a GPU at a moment.
type State struct {
	Settings Settings `json:"settings"`
	// Pending are the settings that the next reset puts in force, if they differ from those in
	// force.
	Pending Settings `json:"pending"`
	Health  Health   `json:"health"`
	// Counters grow while the device runs and start again at zero with a reset: a counter that has
	// fallen is a witness of a reset. Keyed by name, such as energy_mj.
	Counters map[string]uint64 `json:"counters,omitempty"`
	// Nodes are the device files of this GPU alone, such as /dev/nvidia0, and those of partitions
	// that may belong to it.
	Nodes []string `json:"nodes,omitempty"`
	// Domain names the NVLink domain or XGMI hive that is reset as a whole; empty if the GPU is
	// reset alone.
	Domain string `json:"domain,omitempty"`
}

// Looks is what a vendor's library says of its GPUs at a moment.
type Looks struct {
	Driver string `json:"driver,omitempty"` // version
	GPUs   []Look `json:"gpus"`
	// Problem says why the library cannot be asked at all, such as library_missing.
	Problem taskcatalog.Code `json:"problem,omitempty"`
	// Failed says of GPUs that the library counts why it does not describe them.
	Failed []string `json:"failed,omitempty"`
}

// Look is what a library says of a GPU. A field that was not measured is missing: see
// taskcatalog.HealthFields.
type Look struct {
	UUID       string            `json:"uuid"`
	PCIAddress string            `json:"pci_address"`
	Numbers    map[string]int64  `json:"numbers"`
	Texts      map[string]string `json:"texts"`
}

// Health decides whether a GPU may be given to the next tenant.
type Health = taskcatalog.GPUHealth
