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
	// cloudInitPatience is how long the first boot's secrets wait for a cloud-init
	// that does not end.
	cloudInitPatience = 30 * time.Minute
)

// firstBoot tells of the layers of the first boot until all are done, strikes its
// secrets once the node has enrolled (at each start of the agent, for at each boot
// cloud-init may have written them anew), and turns cloud-init off in the end: once
// for each enrolment, and before its baseline. Whoever turns it on again after that
// meant to, or is found by node.validate_clean.
func (a *Agent) firstBoot(ctx context.Context) error {
	begun, struckFor := a.Now(), ""
	said, ended := firstboot.Layers(a.Machine)
	for {
		if !ended {
			var now map[string]string
			if now, ended = firstboot.Layers(a.Machine); !maps.Equal(now, said) {
				a.tell(nil)
				said = now
			}
		}
		m := a.state.Member()
		if m != nil && m.TokenHash != struckFor && a.mayStrike(begun) {
			n, err := firstboot.Strike(a.Machine.Dir(), m.TokenHash)
			if err != nil {
				a.Log.Warn("secrets of the first boot may be left in cloud-init's files", zap.Error(err))
			}
			if n > 0 {
				a.Log.Info("struck the secrets of the first boot from cloud-init's files", zap.Int("files", n))
			}
			struckFor = m.TokenHash
		}
		if m != nil && a.state.FirstBootDue() && (a.Allow == inbox.AllowProbe || m.TokenHash == struckFor && a.turnCloudInitOff()) {
			if err := a.state.EndFirstBoot(m); err != nil {
				a.Log.Warn("the baseline waits until the first boot's end is noted", zap.Error(err))
			}
		}
		if err := sleep(ctx, firstBootPause); err != nil {
			return err
		}
	}
}

// mayStrike: an agent that may only look changes no file, and cloud-init ends first.
// The unit that enrols does too: one that is cut asks again with the token's file.
func (a *Agent) mayStrike(begun time.Time) bool {
	return a.Allow != inbox.AllowProbe && firstboot.Enrolled(a.Machine) && (!firstboot.CloudInitRuns(a.Machine.Dir()) || a.Now().Sub(begun) > cloudInitPatience)
}

// turnCloudInitOff does so where the first boot was ours and is through. It reports
// whether nothing of the first boot is left to do.
func (a *Agent) turnCloudInitOff() bool {
	ours, through := firstboot.Ours(a.Machine)
	if !ours {
		return true // it is not for us to change how such a machine boots
	}
	if !through || firstboot.CloudInitRuns(a.Machine.Dir()) {
		return false
	}
	if err := firstboot.TurnOff(a.Machine); err != nil {
		a.Log.Warn("cannot turn cloud-init off: at each boot it carries out what is in /var/lib/cloud", zap.Error(err))
		return false
	}
	return true
}
