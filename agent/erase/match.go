package erase

import (
	"fmt"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// find returns the disk that matches all given parts of a name, if exactly one does.
func find(name taskcatalog.DiskName, all []*disk) (*disk, error) {
	called := displayName(name)
	if collapseSpaces(name.Serial) == "" && id(name.WWN) == "" && id(name.NGUID) == "" {
		return nil, taskcatalog.Errorf(taskcatalog.CodeBadParams,
			"cannot erase %s: the task names neither its serial number, its WWN nor its NGUID", called)
	}
	var fit []*disk
	var near *disk
	for _, d := range all {
		same, differ := compare(name, d)
		switch {
		case len(differ) == 0:
			fit = append(fit, d)
		case same && near == nil:
			near = d
		}
	}
	switch {
	case len(fit) == 1:
		return fit[0], nil
	case len(fit) > 1 && fit[0].wwn != "" && id(fit[0].wwn) == id(fit[1].wwn):
		return nil, taskcatalog.Errorf(taskcatalog.CodeDiskMultipath, "cannot erase %s: %s and %s are two paths to it", called, fit[0].name,
			fit[1].name)
	case len(fit) > 1:
		return nil, taskcatalog.Errorf(taskcatalog.CodeDiskAmbiguous,
			"cannot erase %s: both %s and %s match (name the disk by WWN or NGUID)", called, fit[0].name, fit[1].name)
	case near != nil:
		_, differ := compare(name, near)
		return nil, taskcatalog.Errorf(taskcatalog.CodeDiskDiffers, "cannot erase %s: the machine's %s has another %s", called, near.name,
			strings.Join(differ, ", "))
	}
	return nil, taskcatalog.Errorf(taskcatalog.CodeDiskNotFound, "cannot erase %s: this machine has no such disk", called)
}

// compare compares a name with a disk. same: an identifying part is equal. differ: the parts that
// differ.
func compare(name taskcatalog.DiskName, d *disk) (same bool, differ []string) {
	hold := func(what, asked, has string, tells bool) {
		switch {
		case asked == "":
		case asked != has:
			differ = append(differ, what)
		case tells:
			same = true
		}
	}
	hold("serial", collapseSpaces(name.Serial), collapseSpaces(d.serial), true)
	hold("WWN", id(name.WWN), id(d.wwn), true)
	nguid := id(d.nguid)
	if nguid == "" && len(id(d.wwn)) == 32 { // the kernel derives the wwid from the NGUID
		nguid = id(d.wwn)
	}
	hold("NGUID", id(name.NGUID), nguid, true)
	hold("model", collapseSpaces(name.Model), collapseSpaces(d.model), false)
	if d.size > 0 {
		hold("size", fmt.Sprint(name.SizeBytes), fmt.Sprint(d.size), false)
	}
	return same, differ
}

// collapseSpaces returns s without firmware's padding blanks.
func collapseSpaces(s string) string { return strings.Join(strings.Fields(s), " ") }

// id returns a world-wide name without its prefix and punctuation. A name that is no number, such
// as those made by the kernel from vendor and serial, stays as it is.
func id(s string) string {
	s = collapseSpaces(s)
	bare := strings.ToLower(s)
	for _, prefix := range []string{"eui.", "naa.", "uuid.", "0x"} {
		bare = strings.TrimPrefix(bare, prefix)
	}
	bare = strings.NewReplacer("-", "", ":", "", " ", "").Replace(bare)
	if bare == "" || strings.Trim(bare, "0123456789abcdef") != "" {
		return s
	}
	if strings.Trim(bare, "0") == "" { // an NGUID of zeros means none
		return ""
	}
	return bare
}

func displayName(n taskcatalog.DiskName) string {
	for _, id := range []string{n.Serial, n.WWN, n.NGUID} {
		if id != "" {
			return "disk " + taskcatalog.Clean(id, 128)
		}
	}
	return "a disk"
}
