//go:build !cgo

package nvidia

import (
	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// New returns a stand-in without GPUs: go-nvml needs cgo.
func New() gpu.Vendor { return absent{} }

type absent struct{}

var errNoCgo = taskcatalog.Errorf(gpu.CodeLibraryMissing, "this build has no cgo and cannot use libnvidia-ml.so.1 (use the packaged agent)")

func (absent) Name() string { return "nvidia" }

func (absent) Survey() ([]taskcatalog.GPUFacts, []taskcatalog.LibraryFacts, error) {
	return nil, []taskcatalog.LibraryFacts{{Name: "libnvidia-ml.so.1", Problem: errNoCgo.Code, Detail: errNoCgo.Message}}, nil
}
func (absent) Holders(string) ([]gpu.Holder, error)                { return nil, errNoCgo }
func (absent) State(string) (gpu.State, error)                     { return gpu.State{}, errNoCgo }
func (absent) Look() (gpu.Looks, error)                            { return gpu.Looks{Problem: errNoCgo.Code}, nil }
func (absent) Apply(string, gpu.Settings) ([]gpu.Deviation, error) { return nil, errNoCgo }
func (absent) Reset([]string) error                                { return errNoCgo }
func (absent) CleanLocal(string) error                             { return errNoCgo }
func (absent) OpenMemory(string) (gpu.Memory, error)               { return nil, errNoCgo }
func (absent) Close() error                                        { return nil }
