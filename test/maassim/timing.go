package maassim

import "time"

// Timing is the duration of each process on the region's clock. A process of zero duration ends at
// the next call to the region.
type Timing struct {
	Enlist     time.Duration // from PXE boot of an unknown machine to New
	Commission time.Duration // to the end of the commissioning scripts
	Test       time.Duration // the testing scripts, after commissioning or alone
	Address    time.Duration // until a deployment claims its AUTO addresses
	Token      time.Duration // until the deployment is first rendered and the machine's token exists
	Deploy     time.Duration // until the installed system asks for its user-data
	PhoneHome  time.Duration // from Deployed until the host is really up
	PowerOff   time.Duration // until the BMC reports a released machine off
	Erase      time.Duration
	Rescue     time.Duration // into rescue mode

	NodeTimeout    time.Duration // MAAS's own timeout of a commissioning or a deployment
	ReleaseTimeout time.Duration // MAAS's own timeout of a release
}

// Usual is the timing of a region of ordinary speed and the default.
var Usual = Timing{
	Enlist: 3 * time.Minute, Commission: 6 * time.Minute, Test: time.Minute,
	Address: 5 * time.Second, Token: 20 * time.Second, Deploy: 9 * time.Minute, PhoneHome: time.Minute,
	PowerOff: 15 * time.Second, Erase: 4 * time.Minute, Rescue: 3 * time.Minute,
	NodeTimeout: 30 * time.Minute, ReleaseTimeout: 5 * time.Minute,
}

// Faster divides every duration by n.
func (t Timing) Faster(n float64) Timing {
	for _, d := range []*time.Duration{
		&t.Enlist, &t.Commission, &t.Test, &t.Address, &t.Token, &t.Deploy, &t.PhoneHome, &t.PowerOff, &t.Erase, &t.Rescue,
		&t.NodeTimeout, &t.ReleaseTimeout,
	} {
		*d = time.Duration(float64(*d) / n)
	}
	return t
}
