package restore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

// machines reads MAAS's machines at each site. A site that cannot be read proves nothing about its
// nodes, and they wait.
func (w *Watch) machines(ctx context.Context, at time.Time) error {
	sites, err := w.DB.Sites(ctx, nil)
	if err != nil {
		return err
	}
	for _, site := range sites {
		if err := w.site(ctx, site, at); err != nil {
			w.Log.Warn("cannot compare a site with the restored database", zap.String("site", site.Name), zap.Error(err))
			if err := w.DB.NoteDifferences(ctx,
				[]store.Difference{{
					Subject: "site/" + site.Name, Code: "maas_unread",
					Text: "its machines cannot be read: " + err.Error(),
				}}); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

func (w *Watch) site(ctx context.Context, site broker.Site, at time.Time) error {
	view, err := w.DB.ReconcileView(ctx, site.Name)
	if err != nil {
		return err
	}
	region, err := w.Regions.Region(ctx, site)
	if err != nil {
		return err
	}
	list, err := region.Machines(ctx, 0)
	switch {
	case err != nil:
		return err
	case len(list.Machines) == 0 && len(view.Nodes) > 0:
		return broker.Errorf(broker.Unavailable, "maas_empty", "MAAS lists no machine at all, and %d nodes are bound to one",
			len(view.Nodes))
	}
	c := comparison{db: w.DB, site: site.Name, at: at, list: list, ended: map[string]bool{}}
	return c.compare(ctx, view)
}

// comparison compares one site's machines with its nodes.
type comparison struct {
	db    *store.DB
	site  string
	at    time.Time // of the restore
	list  maas.Snapshot
	ended map[string]bool // by run id: whether the run had ended in the backup

	words []store.MachineWord
	found []store.Difference
}

func (c *comparison) compare(ctx context.Context, view store.ReconcileView) error {
	machines := make(map[string]maas.Machine, len(c.list.Machines))
	for _, m := range c.list.Machines {
		machines[m.SystemID] = m
	}
	known := map[string]bool{}
	var unread error // errors of single nodes: the other nodes are still compared
	for _, n := range view.Nodes {
		known[n.ID] = true
		m, there := machines[n.MAASSystemID]
		if err := c.judge(ctx, n, m, there, view.InRun[n.ID]); err != nil {
			unread = errors.Join(unread, fmt.Errorf("node %s: %w", n.ID, err))
		}
	}
	for _, m := range c.list.Machines {
		if of := m.MarkedFor(); of != "" && !known[of] {
			c.differ("machine/"+c.site+"/"+m.SystemID, "node_unknown",
				"%s is marked for node %s, which is not in the backup: the node was created afterwards", describe(m), of)
		}
	}
	if err := c.db.SaveMachineWords(ctx, c.words); err != nil {
		return err
	}
	if err := c.db.NoteDifferences(ctx, c.found); err != nil {
		return err
	}
	if unread != nil {
		return unread
	}
	return c.db.SiteCompared(ctx, c.site)
}

// judge decides what MAAS's report of one node's machine proves.
func (c *comparison) judge(ctx context.Context, n broker.Node, m maas.Machine, there bool, inRun string) error {
	is := "MAAS has no machine " + n.MAASSystemID
	if there {
		is = describe(m)
	}
	if inRun != "" {
		c.differ("run/"+inRun, "machine", "of node %s: %s", n.ID, is)
	}
	word := store.MachineOther
	if there && m.Status == maas.Deployed && m.MarkedFor() == n.ID && m.MarkedBy() != "" {
		ended, err := c.hadEnded(ctx, m.MarkedBy())
		if err != nil {
			return err
		}
		word = store.MachineNewer
		if ended {
			word = store.MachineSame
		}
	}
	switch {
	case word == store.MachineNewer && m.MarkedBy() != inRun:
		c.differ("node/"+n.ID, "deployed_again", "its machine was deployed after the backup, by run %s: %s", m.MarkedBy(), is)
	case word == store.MachineOther && deployed(n.Status):
		c.differ("node/"+n.ID, "machine_not_its_own", "the node was %s in the backup, and its machine is not deployed for it: %s", n.Status,
			is)
	}
	c.words = append(c.words, store.MachineWord{NodeID: n.ID, Word: word, Is: is})
	return nil
}

// deployed reports whether a node of this status has a machine.
func deployed(s broker.NodeStatus) bool {
	switch s {
	case broker.Active, broker.Offline, broker.Quarantined, broker.Draining, broker.Retired:
		return true
	}
	return false
}

// hadEnded reports whether the backup knows the run as ended.
func (c *comparison) hadEnded(ctx context.Context, id string) (bool, error) {
	if ended, looked := c.ended[id]; looked {
		return ended, nil
	}
	r, err := c.db.Run(ctx, id)
	if no, ok := errors.AsType[*chain.Refused](err); err != nil && (!ok || no.Code != "run_not_found") {
		return false, err
	}
	// A run that an operator has ended since the restore had not ended in the backup.
	c.ended[id] = err == nil && r.Status.Ended() && !r.CompletedAt.After(c.at)
	return c.ended[id], nil
}

func (c *comparison) differ(subject, code, form string, args ...any) {
	c.found = append(c.found, store.Difference{Subject: subject, Code: code, Text: fmt.Sprintf(form, args...)})
}

// describe describes a machine as MAAS reports it.
func describe(m maas.Machine) string {
	text := fmt.Sprintf("machine %s (%s) is %s", taskcatalog.Clean(m.SystemID, 32), taskcatalog.Clean(m.Hostname, 64),
		taskcatalog.Clean(m.StatusName, 64))
	if m.Owner != "" {
		text += ", of " + taskcatalog.Clean(m.Owner, 64)
	}
	if by := m.MarkedBy(); by != "" {
		text += ", marked for node " + m.MarkedFor() + " by run " + by
	}
	return text
}
