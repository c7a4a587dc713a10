package registry

import (
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

func TestNothingIsRepeatedOfABodyThatFails(t *testing.T) {
	for said, want := range map[error]string{errors.New("the server is going: PLANTED"): "the registry gives no answer that can be read", io.ErrUnexpectedEOF: "the registry breaks off", io.EOF: "EOF"} {
		if _, err := (maskedBody{Reader: iotest.ErrReader(said)}).Read(make([]byte, 1)); err == nil || err.Error() != want {
			t.Errorf("%v", err)
		}
	}
}
