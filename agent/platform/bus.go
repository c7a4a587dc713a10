package platform

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
)

const devices = "/sys/bus/pci/devices"

// function is a function on the PCI bus.
type function struct{ slot, class, vendor string }

// functions lists the bus; a machine without PCI has none.
func (p *Platform) functions() ([]function, error) {
	slots, err := p.Machine.Names(devices)
	if err != nil {
		return nil, err
	}
	var all []function
	for _, slot := range slots {
		class, err1 := p.text(path.Join(devices, slot, "class"))
		vendor, err2 := p.text(path.Join(devices, slot, "vendor"))
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		all = append(all, function{slot, class, vendor})
	}
	return all, nil
}

// sriov reads the number of virtual functions of each function that has some.
func (p *Platform) sriov(context.Context) (Reading, error) {
	functions, err := p.functions()
	if err != nil {
		return Reading{}, err
	}
	var r Reading
	able := false
	for _, f := range functions {
		count, err := p.text(path.Join(devices, f.slot, "sriov_numvfs"))
		if err != nil {
			return r, err
		}
		if count == "" {
			continue
		}
		able = true
		n, err := strconv.Atoi(count)
		if err != nil || n < 0 {
			return r, fmt.Errorf("cannot tell how many virtual functions %s has: its count is not a number", f.slot)
		}
		if n > 0 {
			r.set("virtual functions of "+f.slot, count)
		}
	}
	if !able {
		r.Absent = "nothing on the PCI bus makes virtual functions"
	}
	return r, nil
}
