package broker

import (
	"sync"
	"time"
)

const (
	repeatsEvery = time.Minute // equal entries are written once in this time
	maxRepeats   = 4096        // kinds counted separately, and as many floods
)

// Repeats limits repeated entries in a log. Two entries with equal K count as the same. Repeats
// is safe for concurrent use, and the zero value is ready.
type Repeats[K comparable] struct {
	mu   sync.Mutex
	seen map[K]*repeat
}

type repeat struct {
	writtenAt time.Time
	more      int // suppressed since then
}

// Due reports whether k is to be written now, and how many equal entries were suppressed. Above
// maxRepeats kinds, a new kind counts as flood, which names whoever causes the entry. Above twice as many, a new
// flood counts as the zero K.
func (s *Repeats[K]) Due(k, flood K, now time.Time) (more int, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[K]*repeat{}
	}
	if s.seen[k] == nil && len(s.seen) >= maxRepeats {
		for old, v := range s.seen {
			if now.Sub(v.writtenAt) >= repeatsEvery {
				delete(s.seen, old)
			}
		}
		if len(s.seen) >= maxRepeats {
			k = flood
		}
	}
	if s.seen[k] == nil && len(s.seen) >= 2*maxRepeats {
		k = *new(K)
	}
	had := s.seen[k]
	switch {
	case had == nil:
		s.seen[k] = &repeat{writtenAt: now}
		return 0, true
	case now.Sub(had.writtenAt) < repeatsEvery:
		had.more++
		return 0, false
	}
	more, had.more, had.writtenAt = had.more, 0, now
	return more, true
}
