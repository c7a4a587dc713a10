package agent

import (
	"context"
	"maps"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/firstboot"
	"github.com/hostler/hostler/agent/inbox"
)

const (
	firstBootPause = 10 * time.Second
	// cloudInitPatience is how long erasing the first boot's secrets waits for a cloud-init run
	// that does not end.
	cloudInitPatience = 30 * time.Minute
)

// firstBoot reports the layers of the first boot until all are done. It erases the first boot's
// secrets from cloud-init's files once the node has enrolled; it does so at each start of the
// agent, because cloud-init may write the secrets anew at each boot. At the end it turns cloud-init
// off: once per enrolment, and before the enrolment's baseline. If cloud-init is on again later,
// either an operator turned it on or node.validate_clean finds it.
func (a *Agent) firstBoot(ctx context.Context) error {
	begun, erasedFor := a.Now(), ""
	said, ended := firstboot.Layers(a.Machine)
	for {
		if !ended {
			var now map[string]string
			if now, ended = firstboot.Layers(a.Machine); !maps.Equal(now, said) {
				a.updateReport(nil)
				said = now
			}
		}
		m := a.state.Member()
		if m != nil && m.TokenHash != erasedFor && a.mayEraseSecrets(begun) {
			n, err := firstboot.EraseSecrets(a.Machine.Dir(), m.TokenHash)
			if err != nil {
				a.Log.Warn("secrets of the first boot may be left in cloud-init's files", zap.Error(err))
			}
			if n > 0 {
				a.Log.Info("removed the secrets of the first boot from cloud-init's files", zap.Int("files", n))
			}
			erasedFor = m.TokenHash
		}
		if m != nil && a.state.FirstBootDue() && (a.Allow == inbox.AllowProbe || m.TokenHash == erasedFor && a.disableCloudInit()) {
			if err := a.state.EndFirstBoot(m); err != nil {
				a.Log.Warn("the baseline waits until the end of the first boot is recorded", zap.Error(err))
			}
		}
		if err := sleep(ctx, firstBootPause); err != nil {
			return err
		}
	}
}

// mayEraseSecrets reports whether the secrets may be erased: not by an agent that allows only
// probes, not while the enrolling unit runs, and not while cloud-init runs, unless
// cloudInitPatience is over. An enrolling unit that is interrupted enrols again with the token
// file.
func (a *Agent) mayEraseSecrets(begun time.Time) bool {
	return a.Allow != inbox.AllowProbe && firstboot.Enrolled(a.Machine) &&
		(!firstboot.CloudInitRunning(a.Machine.Dir()) || a.Now().Sub(begun) > cloudInitPatience)
}

// disableCloudInit turns cloud-init off if Hostler ran the first boot and the first boot is
// complete. It returns true when no work of the first boot is left.
func (a *Agent) disableCloudInit() bool {
	ours, through := firstboot.Managed(a.Machine)
	if !ours {
		return true // without a first boot by Hostler, cloud-init stays on
	}
	if !through || firstboot.CloudInitRunning(a.Machine.Dir()) {
		return false
	}
	if err := firstboot.DisableCloudInit(a.Machine); err != nil {
		a.Log.Warn("cannot turn cloud-init off: cloud-init runs the content of /var/lib/cloud at each boot", zap.Error(err))
		return false
	}
	return true
}
