package tasks

import (
	"errors"
	"testing"

	"github.com/hostler/hostler/agent/host"
)

// leftStopped holds the ledger's records of a crashed scrub.
type leftStopped struct {
	named, unnamed, off []string
	err                 error
}

func (l leftStopped) PutStopped(string) error         { return l.err }
func (l leftStopped) StoppedUnits() ([]string, error) { return l.named, nil }
func (l leftStopped) DeleteStopped(string) error      { return l.err }
func (l leftStopped) PutUnnamed(string) error         { return l.err }
func (l leftStopped) UnnamedUnits() ([]string, error) { return l.unnamed, l.err }
func (l leftStopped) ForgetUnnamed() error            { return l.err }

func (l leftStopped) PutPersistent(string) error        { return l.err }
func (l leftStopped) PersistentGPUs() ([]string, error) { return l.off, nil }
func (l leftStopped) DeletePersistent(string) error     { return l.err }

func TestAScrubThatCrashedTellsWhatItStopped(t *testing.T) {
	const again = "; the GPUs must be scrubbed again"
	for want, left := range map[string]leftStopped{
		"the stopped services run again" + again: {},
		"still stopped: a.service" + again:       {named: []string{"a.service"}},
		"the stopped services run again; these services used a GPU, are not in stop_services, and stay stopped: b.service, c.service" + again: {unnamed: []string{"b.service", "c.service"}},
		"the stopped services run again; persistence mode is still off: GPU-1" + again:                                                        {off: []string{"GPU-1"}},
		"still stopped: a.service; these services used a GPU, are not in stop_services, and stay stopped: b.service" + again:                  {named: []string{"a.service"}, unnamed: []string{"b.service"}},
		"cannot read which services were stopped: disk error":                                                                                 {err: errors.New("disk error")},
	} {
		if got := probeGPUScrub(t.Context(), &host.Host{Stopped: left}, nil); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
