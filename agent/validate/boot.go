package validate

import (
	"context"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// lookBoot compares the kernel, its first root file system and the boot loader.
func lookBoot(ctx context.Context, v *validation) ([]item, error) {
	names, err := v.tree(ctx, []string{"/boot", "/etc"}, func(name string, mode uint32) bool {
		return passive(mode) && path.Base(name) == "grubenv" || mode&unix.S_IFMT != unix.S_IFDIR &&
			(rowOf(name) != "boot" || v.packaged(name) && strings.HasPrefix(name, "/boot/"))
	})
	if err != nil {
		return nil, err
	}
	records, err := v.records(ctx, names, true)
	if err != nil {
		return nil, err
	}
	mine := func(name string) bool { return rowOf(name) == "boot" }
	return v.compareFiles("boot", records, mine, func(string) string { return "boot" }), nil
}
