package store

import (
	"context"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// judged is what decides about a node, with the record of the last judgement.
type judged struct {
	broker.Handout
	word    broker.Availability // empty: none
	codes   string
	policy  *policyInForce
	verdict verdict // the last one on its certificate
}

// nodesWith selects nodes by their ids; no ids: all nodes.
func nodesWith(ids []string) (w sqlkit.Where) {
	sqlkit.In(&w, "nodes.id", ids)
	return w
}

// handouts collects the data of handout for the nodes of a selection in a fixed number of queries, in no
// order. Texts for people are left out, and so is a deleted node on record as out of service.
func handouts(ctx context.Context, r sqlkit.Runner, of sqlkit.Where, now time.Time) ([]judged, error) {
	policies, err := policiesInForce(ctx, r, nil)
	if err != nil {
		return nil, err
	}
	policies[""] = newPolicyInForce(broker.DefaultPolicy()) // of nodes at no site on record
	w := sqlkit.Where{Terms: slices.Clone(of.Terms), Args: of.Args}
	w.Add("(nodes.status <> 'deleted' OR a.word IS NULL OR a.word <> 'out_of_service')")
	fleet, err := sqlkit.Collect(ctx, r, func(row sqlkit.Row) (f judged, err error) {
		f.Now = now
		var c broker.LastCertificate
		n := &f.Node
		err = row.Scan(&n.ID, &n.Site, &n.Status, &n.TurnoverOwed,
			sqlkit.ScanMicros(&n.LastAgentContactAt), sqlkit.ScanMicros(&f.OverrideAt),
			&f.RunID, &f.Run, &f.RunKind, &f.ClaimedBy,
			&c.ID, &c.MeetsPolicy, sqlkit.ScanMicros(&c.IssuedAt), sqlkit.ScanMicros(&c.ValidUntil), &f.word, &f.codes, &f.SiteDisabled,
			sqlkit.ScanMicros(&f.Provisions.HeldAt), &f.Maintenance.ID,
			&f.verdict.certificateID, &f.verdict.policy, sqlkit.ScanJSON(&f.verdict.lacks), sqlkit.ScanMicros(&f.verdict.since))
		if c.ID != "" {
			f.policy, f.Certificate = policies[n.Site], &c
			if f.policy == nil {
				f.policy = policies[""]
			}
			f.verdict.into(&c, f.policy)
		}
		return f, err
	}, `SELECT nodes.id, nodes.site, nodes.status, nodes.turnover_owed, nodes.last_contact_at, nodes.override_at,
			COALESCE(k.id, ''), COALESCE(k.status, ''), COALESCE(k.kind, ''),
			COALESCE((SELECT allocation_id FROM allocation_claims WHERE node_id = nodes.id AND ended_at = 0), ''),
			COALESCE(c.id, ''), COALESCE(c.meets_policy, FALSE), COALESCE(c.issued_at, 0), COALESCE(c.valid_until, 0),
			COALESCE(a.word, ''), COALESCE(a.codes, ''), `+siteDisabled+`, COALESCE(p.held_at, 0), COALESCE(m.id, ''),
			COALESCE(v.certificate_id, ''), COALESCE(v.policy, ''), COALESCE(v.lacks, '[]'), COALESCE(v.since, 0)
		FROM nodes LEFT JOIN node_availability a ON a.node_id = nodes.id LEFT JOIN provision_failures p ON p.node_id = nodes.id
			LEFT JOIN certificate_verdicts v ON v.node_id = nodes.id `+joinMaintenance+`
			LEFT JOIN chain_locks l ON l.name = 'node/' || nodes.id LEFT JOIN chain_runs k ON k.id = l.run_id
			LEFT JOIN clean_certificates c ON c.id = (SELECT id FROM clean_certificates WHERE node_id = nodes.id ORDER BY issued_at DESC, id DESC LIMIT 1)`+
		w.String(), w.Args...)
	if err != nil {
		return nil, err
	}
	at := make(map[string]int, len(fleet))
	for i, f := range fleet {
		at[f.Node.ID] = i
	}
	if err := freezesInto(ctx, r, fleet); err != nil {
		return nil, err
	}
	all, err := sqlkit.Collect(ctx, r, scanOccupant, `SELECT `+occupantColumns+` FROM allocations
		WHERE certified_by = '' AND `+occupantWas+ofNodes(of), of.Args...)
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		if i, known := at[a.NodeID]; known {
			fleet[i].Occupants = append(fleet[i].Occupants, a)
		}
	}
	_, err = sqlkit.Collect(ctx, r, func(row sqlkit.Row) (id string, err error) {
		var d broker.Device
		err = row.Scan(&id, &d.Kind, &d.ID, &d.State)
		if i, known := at[id]; known {
			fleet[i].Devices = append(fleet[i].Devices, d)
		}
		return id, err
	}, `SELECT node_id, kind, id, state FROM node_devices WHERE state IN ('missing', 'unexpected')`+ofNodes(of), of.Args...)
	return fleet, err
}

// ofNodes continues a condition: the row belongs to a node of the selection.
func ofNodes(of sqlkit.Where) string {
	if len(of.Terms) == 0 {
		return ""
	}
	return " AND node_id IN (SELECT nodes.id FROM nodes" + of.String() + ")"
}

// freezesInto adds to each node the freezes in force at its site.
func freezesInto(ctx context.Context, r sqlkit.Runner, fleet []judged) error {
	holds, err := sqlkit.Collect(ctx, r, scanHold,
		`SELECT `+holdColumns+` FROM chain_holds WHERE until_at = 0 AND kind IN ('freeze', 'restored')`)
	if err != nil || len(holds) == 0 {
		return err
	}
	of := map[string][]chain.SiteHold{}
	for _, h := range holds {
		of[h.Site] = append(of[h.Site], h)
	}
	for i := range fleet {
		sites := []string{""}
		if site := fleet[i].Node.Site; site != "" {
			sites = append(sites, site)
		}
		for _, site := range sites {
			for _, h := range of[site] {
				fleet[i].Freezes = append(fleet[i].Freezes, string(h.Kind))
			}
		}
	}
	return nil
}
