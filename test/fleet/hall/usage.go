package hall

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is the resources of the broker's process.
type Usage struct {
	Resident  int64         // bytes of memory
	Processor time.Duration // since it started
}

// ticksPerSecond converts the processor times in /proc, on every supported architecture.
const ticksPerSecond = 100

// Usage reads the usage from /proc.
func (h *Hall) Usage() (u Usage, err error) {
	proc := fmt.Sprintf("/proc/%d/", h.BrokerPID())
	statm, err := os.ReadFile(proc + "statm")
	if err != nil {
		return u, err
	}
	stat, err := os.ReadFile(proc + "stat")
	if err != nil {
		return u, err
	}
	pages, err := strconv.ParseInt(strings.Fields(string(statm))[1], 10, 64)
	if err != nil {
		return u, err
	}
	// After the name, which may hold anything, utime and stime are the 12th and the 13th.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return u, err
		}
		ticks += n
	}
	return Usage{Resident: pages * int64(os.Getpagesize()), Processor: time.Duration(ticks) * time.Second / ticksPerSecond}, nil
}
