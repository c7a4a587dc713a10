package secrets

import "time"

// SetTimeout bounds each request, in place of ten seconds.
func (v *Vault) SetTimeout(d time.Duration) { v.wire.timeout = d }
