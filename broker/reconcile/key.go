package reconcile

import (
	"context"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/store"
)

// keyPatience limits the wait for a MAAS that is asked for nothing but the key.
const keyPatience = 45 * time.Second

// askKey asks whether MAAS accepts the key of a site without nodes to compare, so that a refused
// key is found before the first onboarding. A key that was just set was tried then.
func (w *Watch) askKey(ctx context.Context, site broker.Site) error {
	began := w.DB.Now()
	if began.Before(site.APITokenSetAt.Add(Every)) {
		return nil
	}
	asking, done := context.WithTimeout(ctx, keyPatience)
	defer done()
	region, err := w.Regions.Region(asking, site)
	if err == nil {
		_, err = region.Identify(asking)
	}
	if err != nil && !refused(err) {
		return ctx.Err() // the answer is unknown, and the last answer counts
	}
	last, failed := w.DB.ReconcileLooks(ctx, []string{site.Name})
	if failed != nil {
		return failed
	}
	l := store.ReconcileLook{Site: site.Name}
	if len(last) > 0 {
		l = last[0]
	}
	l.KeyAt, l.KeyRefused = began, err != nil
	return w.DB.SaveLook(ctx, broker.System, l)
}

// refused reports whether MAAS refused the key.
func refused(err error) bool {
	class := maas.ClassOf(err)
	return class == maas.Unauthorized || class == maas.Forbidden
}
