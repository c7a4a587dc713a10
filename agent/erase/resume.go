package erase

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"go.uber.org/zap"
)

// An overwrite of a large disk takes days. What one that was cut off had written and
// flushed is not written again by the next: it is read back with all the rest, and the
// disk is clean only if every byte of it is the pattern. So nothing that is remembered
// here can make a disk clean; it can only save the writing.

// Overwrites remember overwrites that have not ended, by disk, over a crash.
type Overwrites interface {
	Overwrite(disk string) (Overwrite, bool, error)
	PutOverwrite(disk string, o Overwrite) error
	DeleteOverwrite(disk string) error
}

// Overwrite is how far one came: so many bytes from the start of the disk are the
// keystream of this key, and flushed.
type Overwrite struct {
	Key     []byte `json:"key"`
	Written int64  `json:"written"`
}

// begin is an overwrite of which nothing is written, under a new key.
func (e *Erase) begin() (Overwrite, error) {
	o := Overwrite{Key: make([]byte, 32)}
	_, err := io.ReadFull(e, o.Key)
	return o, err
}

// resume is the overwrite of this very disk that was cut off, if what it had written
// is there wherever one looks; else a new one.
func (e *Erase) resume(t *target) (Overwrite, error) {
	o, ok, err := e.Overwrites.Overwrite(t.identity())
	if err == nil && ok {
		if err = e.there(t, o); err == nil {
			return o, nil
		}
	}
	if err != nil {
		e.Log.Info("the overwrite of a disk begins anew", zap.String("disk", t.name), zap.Error(err))
	}
	if ok {
		e.forget(t)
	}
	return e.begin()
}

// there looks at places in what an overwrite had written. A tenant who had the disk
// since has left something else, and finding it now is sooner than after the rest.
func (e *Erase) there(t *target, o Overwrite) error {
	if o.Written <= 0 || o.Written > t.size || o.Written%chunk != 0 && o.Written != t.size {
		return fmt.Errorf("it is not of %d bytes", o.Written)
	}
	p, err := patternOf(o.Key)
	if err != nil {
		return err
	}
	at, err := places(o.Written, e)
	if err != nil {
		return err
	}
	left, err := (&planted{p, at}).left(t.device)
	if err == nil && left != len(at) {
		err = fmt.Errorf("of %d places, %d are not as they were written", len(at), len(at)-left)
	}
	return err
}

// note remembers how far an overwrite came. One that cannot be remembered goes on.
func (e *Erase) note(t *target, o Overwrite) {
	if err := e.Overwrites.PutOverwrite(t.identity(), o); err != nil {
		e.Log.Warn("an overwrite that is cut off will begin anew", zap.String("disk", t.name), zap.Error(err))
	}
}

// forget is for what has ended.
func (e *Erase) forget(t *target) {
	if err := e.Overwrites.DeleteOverwrite(t.identity()); err != nil {
		e.Log.Warn("cannot forget an overwrite", zap.String("disk", t.name), zap.Error(err))
	}
}

// identity is all that tells a disk from others, whatever its name is in this boot.
func (d *disk) identity() string {
	all := []string{plain(d.serial), id(d.wwn), id(d.nguid), plain(d.model), fmt.Sprint(d.size), fmt.Sprint(d.nsid)}
	sum := sha256.Sum256([]byte(strings.Join(all, "\x00")))
	return hex.EncodeToString(sum[:])
}
