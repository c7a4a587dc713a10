package amd

import (
	"reflect"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/taskcatalog"
)

// rocmDir is the library directory of ROCm's packages, which the loader may not know.
const rocmDir = "/opt/rocm/lib/"

// openLibrary opens a library by its plain name, which comes with the development packages, by the
// known versions, newest first, or in ROCm's own directory.
func openLibrary(name string, versions ...string) (uintptr, error) {
	names := []string{name}
	for _, v := range versions {
		names = append(names, name+"."+v)
	}
	names = append(names, rocmDir+name)
	for _, n := range names {
		handle, err := purego.Dlopen(n, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err == nil {
			return handle, nil
		}
		// The loader names the missing file: the library itself, or a library it needs.
		if !strings.HasPrefix(err.Error(), n+": cannot open shared object file: No such file") {
			return 0, taskcatalog.Errorf(gpu.CodeLibraryMismatched, "cannot open %s: %v", n, err)
		}
	}
	return 0, taskcatalog.Errorf(gpu.CodeLibraryMissing, "cannot open %s: it is not installed", name)
}

// bind sets each function field of the struct at table to the symbol in its tag.
func bind(handle uintptr, table any) error {
	v := reflect.ValueOf(table).Elem()
	for i := range v.NumField() {
		symbol := v.Type().Field(i).Tag.Get("symbol")
		address, err := purego.Dlsym(handle, symbol)
		if err != nil {
			return taskcatalog.Errorf(gpu.CodeSymbolMissing, "cannot use the library: it has no %s (install ROCm 6.3 or newer)", symbol)
		}
		function := reflect.NewAt(v.Field(i).Type(), unsafe.Pointer(v.Field(i).UnsafeAddr()))
		purego.RegisterFunc(function.Interface(), address)
	}
	return nil
}
