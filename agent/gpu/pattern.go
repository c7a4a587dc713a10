package gpu

import (
	"crypto/sha256"
	"encoding/binary"
)

// Pattern is the sequence of 64-bit words written by a scrub. No two scrubs and no two GPUs share a
// pattern, and no driver or tenant can have it in memory beforehand. Every kernel that fills or
// compares uses the same arithmetic.
type Pattern struct{ Lo, Hi uint64 }

// NewPattern returns the pattern of a task's nonce on a GPU.
func NewPattern(nonce []byte, uuid string) Pattern {
	h := sha256.New()
	h.Write([]byte("hostler-gpu-scrub"))
	h.Write(nonce)
	h.Write([]byte(uuid))
	sum := h.Sum(nil)
	return Pattern{Lo: binary.LittleEndian.Uint64(sum), Hi: binary.LittleEndian.Uint64(sum[8:])}
}

// Word is word i of the pattern: SplitMix64's output function over a counter, so that each thread
// of a GPU can compute its words alone.
func (p Pattern) Word(i uint64) uint64 {
	z := p.Lo + (i+1)*0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31 ^ p.Hi
}
