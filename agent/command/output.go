package command

import (
	"strings"
	"sync"

	"github.com/hostler/hostler/taskcatalog"
)

// Output is what a program printed: the first bytes up to the profile's cap, and
// how many there were. It is untrusted.
type Output struct {
	Kept  []byte
	Total int64
}

// Cut reports whether there was more than is kept.
func (o Output) Cut() bool { return o.Total > int64(len(o.Kept)) }

// Lines are at most n lines, each fit to show and to store.
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

// excerpt is the end of the output in one clean line: programs say last why they
// end.
func (o Output) excerpt() string {
	text := strings.TrimSpace(string(o.Kept))
	if len(text) > 300 {
		text = text[len(text)-300:]
	}
	return taskcatalog.Clean(strings.Join(strings.Fields(text), " "), 300)
}

// sink keeps up to its limit and counts the rest. A copy that goes on after the
// program was given up may still write to it.
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

func (s *sink) taken() Output {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Output{Kept: s.out.Kept[:len(s.out.Kept):len(s.out.Kept)], Total: s.out.Total}
}
