package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SwapArea is a swap area in use.
type SwapArea struct {
	Path     string
	Priority int
}

// SwapAreas lists the swap areas in use, with their priorities.
func (m *Machine) SwapAreas() ([]SwapArea, error) {
	raw, err := m.ReadFile("/proc/swaps", 1<<20)
	if err != nil {
		return nil, fmt.Errorf("cannot list swap: %w", err)
	}
	return parseSwapAreas(string(raw))
}

func parseSwapAreas(text string) ([]SwapArea, error) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if !strings.HasPrefix(lines[0], "Filename") {
		return nil, errors.New("cannot parse /proc/swaps: no heading")
	}
	var all []SwapArea
	for _, line := range lines[1:] {
		f := strings.Fields(line)
		if len(f) != 5 {
			return nil, errors.New("cannot parse /proc/swaps: a line does not have five fields")
		}
		priority, err := strconv.Atoi(f[4])
		if err != nil {
			return nil, errors.New("cannot parse /proc/swaps: the priority is not a number")
		}
		all = append(all, SwapArea{Path: unescapeOctal(f[0]), Priority: priority})
	}
	return all, nil
}

// unescapeOctal undoes the kernel's escapes of space, tab, newline and backslash, such as \040.
func unescapeOctal(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// openSwap opens the file or device of a swap area. /proc/swaps never names a link to a device,
// such as those in /dev/disk.
func (m *Machine) openSwap(a SwapArea) (*os.File, error) {
	fd, err := openat2(int(m.root.Fd()), relative(a.Path), unix.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0, resolveStrict)
	if err != nil {
		return nil, fmt.Errorf("cannot open swap area %s: %w", a.Path, err)
	}
	f := os.NewFile(uintptr(fd), a.Path)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		f.Close()
		return nil, err
	}
	if t := st.Mode & unix.S_IFMT; t != unix.S_IFREG && t != unix.S_IFBLK {
		f.Close()
		return nil, fmt.Errorf("cannot open swap area %s: neither a file nor a block device", a.Path)
	}
	return f, nil
}

func swapCall(call uintptr, f *os.File, flags int) error {
	name, err := unix.BytePtrFromString(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return err
	}
	return uninterrupted(func() unix.Errno {
		_, _, errno := unix.Syscall(call, uintptr(unsafe.Pointer(name)), uintptr(flags), 0)
		return errno
	})
}

// maxInterrupted bounds how often an interrupted call is repeated. Each call continues where the
// previous call stopped.
const maxInterrupted = 1000

func uninterrupted(call func() unix.Errno) error {
	errno := unix.EINTR
	for range maxInterrupted {
		if errno = call(); errno != unix.EINTR {
			break
		}
	}
	if errno != 0 {
		return errno
	}
	return nil
}

// SwapOff takes a swap area out of use: the kernel moves the content back to memory.
func (m *Machine) SwapOff(a SwapArea) error {
	f, err := m.openSwap(a)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := swapCall(unix.SYS_SWAPOFF, f, 0); err != nil {
		return fmt.Errorf("cannot take swap area %s out of use: %w", a.Path, err)
	}
	return nil
}

// SwapOn takes a swap area into use with its former priority.
func (m *Machine) SwapOn(a SwapArea) error {
	f, err := m.openSwap(a)
	if err != nil {
		return err
	}
	defer f.Close()
	const prefer = 0x8000 // SWAP_FLAG_PREFER
	flags := 0
	if a.Priority >= 0 {
		flags = prefer | a.Priority&0x7fff
	}
	if err := swapCall(unix.SYS_SWAPON, f, flags); err != nil {
		return fmt.Errorf("cannot take swap area %s into use: %w", a.Path, err)
	}
	return nil
}

// ErrNoSwap says that a supposed swap area lacks the signature of swap.
var ErrNoSwap = errors.New("no swap signature")

// WipeSwap overwrites a swap area that is not in use with zeros, except for the first page, which
// holds size, label and uuid. It returns how many bytes it wrote. A file or device without the
// signature of swap is left alone: ErrNoSwap.
func (m *Machine) WipeSwap(ctx context.Context, a SwapArea) (int64, error) {
	f, err := m.openSwap(a)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	page := int64(os.Getpagesize())
	head := make([]byte, page)
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, page), head); err != nil {
		return 0, fmt.Errorf("cannot read swap area %s: %w", a.Path, err)
	}
	if string(head[page-10:]) != "SWAPSPACE2" {
		return 0, fmt.Errorf("cannot wipe %s: %w", a.Path, ErrNoSwap)
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	zeros := make([]byte, 1<<20)
	done := page
	for done < end {
		if err := ctx.Err(); err != nil {
			return done - page, err
		}
		n, err := f.WriteAt(zeros[:min(int64(len(zeros)), end-done)], done)
		done += int64(n)
		if err != nil {
			return done - page, fmt.Errorf("cannot wipe swap area %s: %w", a.Path, err)
		}
	}
	return done - page, f.Sync()
}
