package command

import (
	"strings"
	"sync"

	"github.com/hostler/hostler/taskcatalog"
)

// Output is what a program printed: the first bytes up to the profile's cap, and
// the total number of bytes. It is untrusted.
type Output struct {
	Kept  []byte
	Total int64
}

// Cut reports whether bytes were dropped.
func (o Output) Cut() bool { return o.Total > int64(len(o.Kept)) }

// Lines returns at most n lines, each safe to show and to store.
func (o Output) Lines(n int) []string {
	var lines []string
	for line := range strings.Lines(string(o.Kept)) {
		if len(lines) == n {
			break
		}
		lines = append(lines, taskcatalog.Clean(strings.TrimRight(line, "\r\n"), taskcatalog.MaxText))
	}
	return lines
}

// excerpt is the end of the output in a single clean line: programs print last why they end.
func (o Output) excerpt() string {
	text := strings.TrimSpace(string(o.Kept))
	if len(text) > 300 {
		text = text[len(text)-300:]
	}
	return taskcatalog.Clean(strings.Join(strings.Fields(text), " "), 300)
}

// sink keeps output up to its limit and counts the rest. A copying goroutine may still write after
// the program was given up.
type sink struct {
	limit int

	mu  sync.Mutex
	out Output
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Total += int64(len(p))
	s.out.Kept = append(s.out.Kept, p[:min(len(p), max(0, s.limit-len(s.out.Kept)))]...)
	return len(p), nil
}

func (s *sink) output() Output {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Output{Kept: s.out.Kept[:len(s.out.Kept):len(s.out.Kept)], Total: s.out.Total}
}
