package erase

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// pattern is unpredictable bytes that can be recomputed at every offset: the keystream of
// AES-256-CTR, with a counter value for each 16 bytes.
type pattern struct{ key cipher.Block }

// newPattern returns a pattern under a random key.
func newPattern(random io.Reader) (pattern, error) {
	var key [32]byte
	if _, err := io.ReadFull(random, key[:]); err != nil {
		return pattern{}, err
	}
	return patternOf(key[:])
}

// patternOf returns the pattern under a key.
func patternOf(key []byte) (pattern, error) {
	block, err := aes.NewCipher(key)
	return pattern{block}, err
}

// at fills b with the pattern at an offset, a multiple of 16.
func (p pattern) at(b []byte, offset int64) {
	var count [aes.BlockSize]byte
	binary.BigEndian.PutUint64(count[8:], uint64(offset)/aes.BlockSize)
	clear(b)
	cipher.NewCTR(p.key, count[:]).XORKeyStream(b, b)
}

// aligned allocates page-aligned memory for reads and writes that bypass the kernel's cache. free
// releases it.
func aligned(size int) (b []byte, free func(), err error) {
	page := os.Getpagesize()
	b, err = unix.Mmap(-1, 0, (size+page-1)/page*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, err
	}
	return b[:size], func() { _ = unix.Munmap(b[:cap(b)]) }, nil
}
