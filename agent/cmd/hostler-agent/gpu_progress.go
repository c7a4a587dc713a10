package main

import (
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/dustin/go-humanize"
	"golang.org/x/term"

	"github.com/hostler/hostler/agent/gpu"
)

// gpuProgress shows the passes over several GPUs: on a terminal in a single changing line,
// elsewhere in a line at the end of each pass.
type gpuProgress struct {
	w    io.Writer
	live bool
	mu   sync.Mutex
	at   map[string]gpu.Progress // by uuid
}

func newGPUProgress(w io.Writer) *gpuProgress {
	f, file := w.(*os.File)
	return &gpuProgress{w: w, live: file && term.IsTerminal(int(f.Fd())), at: map[string]gpu.Progress{}}
}

// of returns the callback of a unit.
func (p *gpuProgress) of(u gpuUnit) func(gpu.Progress) {
	return func(now gpu.Progress) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.at[u.UUID] = now
		if p.live {
			var done, total uint64
			for _, a := range p.at {
				done, total = done+a.DoneBytes, total+a.TotalBytes
			}
			fmt.Fprintf(p.w, "\r\x1b[K%d GPUs: %s, %s of %s", len(p.at), now.Phase, humanize.IBytes(done), humanize.IBytes(total))
		} else if now.DoneBytes >= now.TotalBytes {
			fmt.Fprintf(p.w, "gpu %d %s: %s of %s\n", u.Index, u.UUID, now.Phase, humanize.IBytes(now.DoneBytes))
		}
	}
}

// end leaves the cursor at the start of a clean line.
func (p *gpuProgress) end() {
	if p.live {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
