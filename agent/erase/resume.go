package erase

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"go.uber.org/zap"
)

// An overwrite of a large disk takes days. The part that an interrupted overwrite has written and
// flushed is not written again by the next overwrite. It is read back with all the rest, and the
// disk is clean only if every byte is the pattern. The record of progress can therefore save
// writing, but can never make a disk clean.

// Overwrites remember unfinished overwrites, by disk, over a crash.
type Overwrites interface {
	Overwrite(disk string) (Overwrite, bool, error)
	PutOverwrite(disk string, o Overwrite) error
	DeleteOverwrite(disk string) error
}

// Overwrite is an overwrite's progress: the first Written bytes of the disk are the keystream of
// Key, and flushed.
type Overwrite struct {
	Key     []byte `json:"key"`
	Written int64  `json:"written"`
}

// begin returns an overwrite without progress, under a new key.
func (e *Erase) begin() (Overwrite, error) {
	o := Overwrite{Key: make([]byte, 32)}
	_, err := io.ReadFull(e, o.Key)
	return o, err
}

// resume returns the interrupted overwrite of this disk, if samples of its written part are intact;
// else a new overwrite.
func (e *Erase) resume(t *target) (Overwrite, error) {
	o, ok, err := e.Overwrites.Overwrite(t.identity())
	if err == nil && ok {
		if err = e.sampleWritten(t, o); err == nil {
			return o, nil
		}
	}
	if err != nil {
		e.Log.Info("the overwrite of a disk starts again at the first byte", zap.String("disk", t.name), zap.Error(err))
	}
	if ok {
		e.forget(t)
	}
	return e.begin()
}

// sampleWritten samples the written part of an overwrite. If a tenant had the disk since, the
// samples find it sooner than the full read-back would.
func (e *Erase) sampleWritten(t *target, o Overwrite) error {
	if o.Written <= 0 || o.Written > t.size || o.Written%chunk != 0 && o.Written != t.size {
		return fmt.Errorf("the record has an impossible length of %d bytes", o.Written)
	}
	p, err := patternOf(o.Key)
	if err != nil {
		return err
	}
	at, err := chooseBlocks(o.Written, e)
	if err != nil {
		return err
	}
	left, err := (&planted{p, at}).remaining(t.device)
	if err == nil && left != len(at) {
		err = fmt.Errorf("of %d checked places, %d do not hold the bytes that were written", len(at), len(at)-left)
	}
	return err
}

// recordOverwrite records an overwrite's progress. If this fails, the overwrite goes on.
func (e *Erase) recordOverwrite(t *target, o Overwrite) {
	if err := e.Overwrites.PutOverwrite(t.identity(), o); err != nil {
		e.Log.Warn("cannot record progress: an interrupted overwrite will start again at the first byte", zap.String("disk", t.name),
			zap.Error(err))
	}
}

// forget deletes the record of an overwrite that has ended.
func (e *Erase) forget(t *target) {
	if err := e.Overwrites.DeleteOverwrite(t.identity()); err != nil {
		e.Log.Warn("cannot delete the record of an overwrite", zap.String("disk", t.name), zap.Error(err))
	}
}

// identity is a digest of everything that identifies a disk, independent of its name in this boot.
func (d *disk) identity() string {
	all := []string{collapseSpaces(d.serial), id(d.wwn), id(d.nguid), collapseSpaces(d.model), fmt.Sprint(d.size), fmt.Sprint(d.nsid)}
	sum := sha256.Sum256([]byte(strings.Join(all, "\x00")))
	return hex.EncodeToString(sum[:])
}
