package erase

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/hostler/hostler/taskcatalog"
)

// Planted blocks check a drive's own report of an erase. They are written before the erase at two
// places in each of a thousand parts, and in the first and the last block. None may read the same
// afterwards.

const (
	plantedParts = 1000
	plantedBlock = 4096
)

// planted is a pattern and the places where it was written and read back.
type planted struct {
	pattern pattern
	places  []int64
}

// plant writes the pattern and reads it back. If a disk does not return the written data now,
// different data later proves nothing.
func plant(dev Device, size int64, random io.Reader) (*planted, error) {
	p, err := newPattern(random)
	if err != nil {
		return nil, err
	}
	places, err := chooseBlocks(size, random)
	if err != nil {
		return nil, err
	}
	all := &planted{p, places}
	b, free, err := aligned(plantedBlock)
	if err != nil {
		return nil, err
	}
	defer free()
	for _, at := range places {
		p.at(b, at)
		if _, err := dev.WriteAt(b, at); err != nil {
			return nil, taskcatalog.Errorf(taskcatalog.CodeDiskWrite, "cannot write at byte %d: %v", at, err)
		}
	}
	if err := dev.Sync(); err != nil {
		return nil, taskcatalog.Errorf(taskcatalog.CodeDiskWrite, "cannot flush what was written: %v", err)
	}
	left, err := all.remaining(dev)
	if err == nil && left != len(places) {
		err = taskcatalog.Errorf(taskcatalog.CodeDiskRead, "%d of %d places do not read as they were written", len(places)-left,
			len(places))
	}
	return all, err
}

// remaining counts the places that still hold the pattern.
func (p *planted) remaining(dev Device) (int, error) {
	b, free, err := aligned(2 * plantedBlock)
	if err != nil {
		return 0, err
	}
	defer free()
	got, want := b[:plantedBlock], b[plantedBlock:]
	left := 0
	for _, at := range p.places {
		if err := readAt(dev, got, at); err != nil {
			return left, err
		}
		if p.pattern.at(want, at); bytes.Equal(got, want) {
			left++
		}
	}
	return left, nil
}

// bytes is how much was planted.
func (p *planted) bytes() uint64 { return uint64(len(p.places)) * plantedBlock }

// chooseBlocks chooses distinct blocks within a size, in ascending order.
func chooseBlocks(size int64, random io.Reader) ([]int64, error) {
	blocks := size / plantedBlock
	if blocks == 0 {
		return nil, errors.New("the disk is smaller than a block")
	}
	last := blocks - 1
	all := []int64{0}
	add := func(block int64) {
		if at := min(block, last) * plantedBlock; at > all[len(all)-1] {
			all = append(all, at)
		}
	}
	parts := min(plantedParts, blocks)
	for part := range parts {
		from, to := part*blocks/parts, (part+1)*blocks/parts
		half := from + (to-from)/2
		for _, span := range [][2]int64{{from, half}, {half, to}} {
			var n [8]byte
			if _, err := io.ReadFull(random, n[:]); err != nil {
				return nil, err
			}
			if width := span[1] - span[0]; width > 0 {
				add(span[0] + int64(binary.BigEndian.Uint64(n[:])%uint64(width)))
			}
		}
	}
	add(last)
	return all, nil
}
