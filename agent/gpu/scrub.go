package gpu

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// chunkSizes are the sizes of allocations, in bytes. The largest is limited: a driver that clears
// freed memory has a time limit, and a single huge block was seen to exceed it.
var chunkSizes = []uint64{1 << 30, 256 << 20, 64 << 20, 2 << 20}

const (
	readBackBlock = 64 << 10
	readBackShare = 100 // a hundredth of each chunk, and at least a block
	progressEvery = 200 * time.Millisecond
)

// engine works over the memory of a device.
type engine struct {
	memory   Memory
	now      func() time.Time
	rand     *rand.Rand
	progress func(Progress)
	reported time.Time

	before MemoryInfo
	chunks []Chunk
	bytes  uint64 // of all chunks
	block  []byte // for read-backs
}

// scrub overwrites all available memory. An error ends the scrub, and the figures so far are no
// result.
func (e *engine) scrub(p Pattern) (ScrubResult, error) {
	r := ScrubResult{ComparedOnGPU: e.memory.ComparedOnGPU()}
	var err error
	if r.ResidueWords, err = e.take(100); err != nil {
		return r, err
	}
	r.Memory, r.Chunks, r.CoveredBytes, r.Excluded = e.before, len(e.chunks), e.bytes, e.excluded(100)

	fill, err := e.pass(PhaseFill, func(c Chunk, offset uint64) error { return e.memory.Fill(c, p, offset) })
	if err != nil {
		return r, err
	}
	// The read-back comes after the clock was read: it runs at the host's speed, not the GPU's.
	verify, err := e.pass(PhaseVerify, func(c Chunk, offset uint64) error {
		n, err := e.memory.Mismatches(c, p, offset)
		r.MismatchedWords += n
		return err
	})
	if err != nil {
		return r, err
	}
	read := func(want func(word uint64) uint64) error {
		bytes, wrong, err := e.readBack(want)
		r.ReadBackBytes += bytes
		r.ReadBackMismatches += wrong
		return err
	}
	if err := read(p.Word); err != nil {
		return r, err
	}
	zero, err := e.pass(PhaseZero, func(c Chunk, _ uint64) error { return e.memory.Zero(c) })
	if err != nil {
		return r, err
	}
	if _, err := e.pass(PhaseCheck, func(c Chunk, _ uint64) error {
		n, err := e.memory.NonZero(c)
		r.RemainingWords += n
		return err
	}); err != nil {
		return r, err
	}
	if err := read(zeros); err != nil {
		return r, err
	}
	r.FillRate, r.VerifyRate, r.MemsetRate = rate(e.bytes, fill), rate(e.bytes, verify), rate(e.bytes, zero)
	return r, e.free()
}

// probe reads percent of the free memory and writes nothing.
func (e *engine) probe(percent uint64) (ProbeResult, error) {
	r := ProbeResult{ComparedOnGPU: e.memory.ComparedOnGPU()}
	var err error
	if r.NonZeroWords, err = e.take(percent); err != nil {
		return r, err
	}
	r.Memory, r.Chunks, r.CoveredBytes, r.Excluded = e.before, len(e.chunks), e.bytes, e.excluded(percent)
	if r.ReadBackBytes, r.ReadBackNonZero, err = e.readBack(zeros); err != nil {
		return r, err
	}
	return r, e.free()
}

// take allocates up to percent of the free memory and counts the words that are not zero before
// anything is written.
func (e *engine) take(percent uint64) (residue uint64, err error) {
	if e.before, err = e.memory.Info(); err != nil {
		return 0, err
	}
	limit := e.limit(percent)
	for _, size := range chunkSizes {
		for e.bytes+size <= limit {
			c, err := e.memory.Alloc(size)
			if taskcatalog.CodeOf(err, "") == CodeOutOfMemory {
				break // in this size; smaller pieces may be left
			}
			if err != nil {
				return 0, err
			}
			e.chunks = append(e.chunks, c)
			n, err := e.memory.NonZero(c)
			if err != nil {
				return 0, err
			}
			residue += n
			e.bytes += size
			e.report(PhaseTake, e.bytes, max(e.bytes, min(limit, e.before.Free)))
		}
	}
	return residue, nil
}

// limit bounds the allocation, so that a driver which hands out more memory than it has does not
// keep the engine busy for ever.
func (e *engine) limit(percent uint64) uint64 {
	if percent >= 100 {
		return e.before.Total
	}
	return e.before.Free / 100 * percent
}

func (e *engine) excluded(percent uint64) []Exclusion {
	var all []Exclusion
	add := func(reason string, bytes uint64) {
		if bytes > 0 {
			all = append(all, Exclusion{Reason: reason, Bytes: bytes})
		}
	}
	var reserved uint64
	if e.before.Reserved != nil {
		reserved = *e.before.Reserved
	}
	add(ReservedByDriver, reserved)
	add(NotFree, subtract(e.before.Total, reserved+e.before.Free))
	left := subtract(e.before.Free, e.bytes)
	if percent < 100 {
		unasked := min(left, subtract(e.before.Free, e.limit(percent)))
		add(NotAskedFor, unasked)
		left -= unasked
	}
	add(NotAllocatable, left)
	return all
}

func subtract(a, b uint64) uint64 { return a - min(a, b) }

// pass calls do for every chunk and returns the time taken by do.
func (e *engine) pass(phase string, do func(c Chunk, offset uint64) error) (time.Duration, error) {
	var took time.Duration
	var offset uint64
	for _, c := range e.chunks {
		start := e.now()
		if err := do(c, offset); err != nil {
			return 0, err
		}
		took += e.now().Sub(start)
		offset += c.Bytes
		e.report(phase, offset, e.bytes)
	}
	return took, nil
}

func zeros(uint64) uint64 { return 0 }

// readBack reads random blocks of each chunk to the host, in case the counting on the GPU is wrong.
func (e *engine) readBack(want func(word uint64) uint64) (bytes, wrong uint64, err error) {
	if e.block == nil {
		e.block = make([]byte, readBackBlock)
	}
	var offset uint64
	for _, c := range e.chunks {
		size := min(c.Bytes, readBackBlock)
		for range max(1, c.Bytes/readBackShare/size) {
			at := e.rand.Uint64N((c.Bytes-size)/8+1) * 8
			block := e.block[:size]
			if err := e.memory.Read(c, at, block); err != nil {
				return bytes, wrong, err
			}
			first := (offset + at) / 8
			for i := range size / 8 {
				if binary.LittleEndian.Uint64(block[i*8:]) != want(first+i) {
					wrong++
				}
			}
			bytes += size
		}
		offset += c.Bytes
	}
	return bytes, wrong, nil
}

func (e *engine) free() error {
	for _, c := range e.chunks {
		if err := e.memory.Free(c); err != nil {
			return err
		}
	}
	e.chunks = nil
	return nil
}

// report always reports the end of a phase, and intermediate progress at intervals.
func (e *engine) report(phase string, done, total uint64) {
	if now := e.now(); done >= total || now.Sub(e.reported) >= progressEvery {
		e.reported = now
		e.progress(Progress{phase, done, total})
	}
}

func rate(bytes uint64, d time.Duration) *uint64 {
	if d <= 0 || bytes == 0 {
		return nil
	}
	perSecond := uint64(float64(bytes) / d.Seconds())
	return &perSecond
}
