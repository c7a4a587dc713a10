package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
	"github.com/hostler/hostler/taskcatalog"
)

// TerminalState is a session with the present data that decides whether it may go on.
type TerminalState struct {
	Session broker.TerminalSession
	Access  broker.TerminalAccess
	// RelayHeard is the last heartbeat of the relay that holds the session; zero: the relay has
	// released all its sessions, or was never heard.
	RelayHeard time.Time
	// RelayInstance is the process of that heartbeat.
	RelayInstance string
	// EndCode and EndReason are those of a requested end; empty: no request.
	EndCode   string
	EndReason string
	Open      TerminalOpening
}

// TerminalOpening is the state of the last task that sends a session's node to its relay.
type TerminalOpening struct {
	Began   bool              // the session's process has begun, and must not be started again
	Status  broker.TaskStatus // empty: no task is sent yet
	Outcome taskcatalog.Outcome
	Code    taskcatalog.Code
	Message string
	At      time.Time // when the task was sent
}

// sessionColumns are terminalColumns of s.
var sessionColumns = func() string {
	names := strings.Split(terminalColumns, ",")
	for i := range names {
		names[i] = "s." + strings.TrimSpace(names[i])
	}
	return strings.Join(names, ", ")
}()

// accessRow is further data that decides about a session: of a node n, the run k that has n, the
// occupant a, the token o, the policy p, and the tenant's allocation d of project j.
type accessRow struct {
	runStatus, username string
	hadRoot             bool
	ended               time.Time
	policy              json.RawMessage
}

const (
	accessColumns = `n.site, n.status, n.epoch, COALESCE(k.id, ''), COALESCE(k.status, ''), COALESCE(k.kind, ''), COALESCE(a.username, ''), COALESCE(a.had_root, FALSE), COALESCE(a.ended_at, 0),
	COALESCE(o.role, ''), COALESCE(o.sites, '[]'), COALESCE(o.expires_at, 0),
	CASE WHEN o.revoked_at > 0 THEN o.revoked_at ELSE COALESCE((SELECT m.ended_at FROM members m WHERE m.id = o.member_id), 0) END,
	COALESCE(o.organisation_id, ''), COALESCE(o.project_id, ''), COALESCE(j.organisation_id, ''), COALESCE(d.project_id, ''), COALESCE(d.status, ''),
	COALESCE(p.policy, '')`
	accessJoins = ` LEFT JOIN chain_locks l ON l.name = 'node/' || n.id LEFT JOIN chain_runs k ON k.id = l.run_id
	LEFT JOIN terminal_policies p ON p.site = n.site LEFT JOIN projects j ON j.id = d.project_id`
)

func (r *accessRow) into(a *broker.TerminalAccess) []any {
	o := &a.Operator
	return []any{
		&a.Site, &a.NodeStatus, &a.NodeEpoch, &a.RunID, &r.runStatus, &a.RunKind, &r.username, &r.hadRoot, sqlkit.ScanMicros(&r.ended),
		&o.Role, sqlkit.ScanJSON(&o.Sites), sqlkit.ScanMicros(&o.ExpiresAt), sqlkit.ScanMicros(&o.RevokedAt),
		&o.Place.OrganisationID, &o.Place.ProjectID, &a.Project.OrganisationID, &a.Project.ProjectID, &a.Allocation,
		sqlkit.ScanRawJSON(&r.policy),
	}
}

// fill completes an access whose operator, node, user and allocation are set.
func (r *accessRow) fill(a *broker.TerminalAccess) {
	a.RunMoves = chain.Status(r.runStatus).Moving()
	if r.username != "" {
		a.Occupant = &broker.Occupant{ID: a.AllocationID, NodeID: a.NodeID, Username: r.username, HadRoot: r.hadRoot, EndedAt: r.ended}
	}
	var unreadable error // an unreadable policy ends the sessions of its own site only
	a.Policy, unreadable = broker.TerminalPolicyOf(r.policy)
	a.NoPolicy = unreadable != nil
}

// tail scans further columns.
type tail struct {
	row  sqlkit.Row
	more []any
}

func (t tail) Scan(into ...any) error { return t.row.Scan(append(into, t.more...)...) }

// beganColumn tells whether the process of session s, with last opening task t, has begun: the node
// was at a relay, or has reported that it sent the process there.
const beganColumn = `(s.began OR s.status <> 'opening' OR COALESCE(t.status, '') = 'succeeded')`

// LiveTerminals returns all sessions that are not closed.
func (db *DB) LiveTerminals(ctx context.Context) ([]TerminalState, error) {
	all, err := sqlkit.Collect(ctx, db.reader(), scanTerminalState,
		`SELECT `+sessionColumns+`, s.opened_in, s.end_asked_code, s.end_asked_reason, COALESCE(r.seen_at, 0), COALESCE(r.instance, ''),
		s.signed_in_role, s.signed_in_organisation, s.signed_in_project, s.signed_in_until,
		EXISTS (SELECT 1 FROM members m WHERE m.denied_at > 0 AND m.subject = s.opened_by AND m.organisation_id = s.signed_in_organisation
			AND m.project_id IN ('', s.signed_in_project)),
		`+beganColumn+
			`, COALESCE(t.status, ''), COALESCE(t.outcome, ''), COALESCE(t.code, ''), COALESCE(t.message, ''), COALESCE(t.issued_at, 0), `+
			accessColumns+`
		FROM terminal_sessions s JOIN nodes n ON n.id = s.node_id
		LEFT JOIN allocations a ON a.node_id = s.node_id AND a.allocation_id = s.allocation_id AND a.certified_by = ''
		LEFT JOIN tenant_allocations d ON d.id = s.allocation_id
		LEFT JOIN operator_tokens o ON o.name = s.opened_by
		LEFT JOIN tasks t ON t.id = s.open_task
		LEFT JOIN terminal_relays r ON r.address = s.replica`+accessJoins+`
		WHERE s.status <> 'closed' ORDER BY s.node_id, s.id`)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	asked, err := revokes(ctx, db.reader(), `node_id IN (SELECT node_id FROM terminal_sessions WHERE status <> 'closed')`)
	for i := range all {
		a := &all[i].Access
		a.Revoking = asked[ofNode{a.NodeID, a.AllocationID}]
	}
	return all, err
}

func scanTerminalState(row sqlkit.Row) (st TerminalState, err error) {
	a, r := &st.Access, accessRow{}
	o, in := &st.Open, broker.OperatorToken{}
	more := append([]any{
		&a.OpenedIn, &st.EndCode, &st.EndReason, sqlkit.ScanMicros(&st.RelayHeard), &st.RelayInstance,
		&in.Role, &in.Place.OrganisationID, &in.Place.ProjectID, sqlkit.ScanMicros(&in.ExpiresAt), &a.Denied, &o.Began, &o.Status,
		&o.Outcome, &o.Code, &o.Message, sqlkit.ScanMicros(&o.At),
	}, r.into(a)...)
	if st.Session, err = scanTerminal(tail{row, more}); err != nil {
		return st, err
	}
	s := st.Session
	if in.Name = s.OpenedBy; in.SignedIn() {
		a.Operator = in
	}
	a.Operator.Name, a.NodeID, a.Epoch, a.Username, a.AllocationID = s.OpenedBy, s.NodeID, s.NodeEpoch, s.Username, s.AllocationID
	r.fill(a)
	return st, nil
}

// TerminalAccess returns the data that decides whether an operator may be on a node as a user, with
// or without an allocation. Codes: node_not_found.
func (db *DB) TerminalAccess(ctx context.Context, operator, nodeID, username, allocationID string) (a broker.TerminalAccess, err error) {
	a = broker.TerminalAccess{
		NodeID: nodeID, Username: username, AllocationID: allocationID,
		Operator: broker.OperatorToken{Name: operator},
	}
	r := accessRow{}
	err = db.reader().QueryRowContext(ctx, `SELECT `+accessColumns+` FROM nodes n
		LEFT JOIN allocations a ON a.node_id = n.id AND a.allocation_id = $2 AND a.certified_by = ''
		LEFT JOIN tenant_allocations d ON d.id = $2
		LEFT JOIN operator_tokens o ON o.name = $3`+accessJoins+` WHERE n.id = $1`, nodeID, allocationID, operator).Scan(r.into(&a)...)
	if errors.Is(err, sql.ErrNoRows) {
		return a, nodeNotFound(nodeID)
	}
	if err != nil {
		return a, err
	}
	asked, err := revokes(ctx, db.reader(), `node_id = $1`, nodeID)
	if err != nil {
		return a, err
	}
	a.Revoking = asked[ofNode{nodeID, allocationID}]
	r.fill(&a)
	return a, nil
}

// TerminalSessionAccess returns a session, and the data that decides whether an operator may join
// it. Codes: terminal_session_not_found.
func (db *DB) TerminalSessionAccess(
	ctx context.Context, operator, id string,
) (s broker.TerminalSession, a broker.TerminalAccess, err error) {
	var openedIn broker.NodeStatus
	s, err = scanTerminal(tail{db.reader().QueryRowContext(ctx,
		`SELECT `+terminalColumns+`, opened_in FROM terminal_sessions WHERE id = $1`, id), []any{&openedIn}})
	if errors.Is(err, sql.ErrNoRows) {
		err = broker.TerminalNotFound(id)
	}
	if err != nil {
		return s, a, err
	}
	a, err = db.TerminalAccess(ctx, operator, s.NodeID, s.Username, s.AllocationID)
	a.Epoch, a.OpenedIn = s.NodeEpoch, openedIn
	return s, a, err
}

// CountLiveTerminals returns how many sessions of a node are not closed.
func (db *DB) CountLiveTerminals(ctx context.Context, nodeID string) (n int, err error) {
	err = db.reader().QueryRowContext(ctx, `SELECT COUNT(*) FROM terminal_sessions WHERE node_id = $1 AND status <> 'closed'`,
		nodeID).Scan(&n)
	return n, err
}

// ofNode names an allocation.
type ofNode struct{ nodeID, allocationID string }

// revokes returns the allocations whose users open tasks will remove.
func revokes(ctx context.Context, r sqlkit.Runner, which string, args ...any) (map[ofNode]bool, error) {
	type row struct {
		nodeID string
		params taskcatalog.RevokeUserParams
	}
	all, err := sqlkit.Collect(ctx, r, func(s sqlkit.Row) (k row, err error) {
		return k, s.Scan(&k.nodeID, sqlkit.ScanJSON(&k.params))
	}, `SELECT node_id, params FROM tasks WHERE status IN ('queued', 'dispatched') AND type = 'allocation.revoke_user' AND `+which, args...)
	out := make(map[ofNode]bool, len(all))
	for _, k := range all {
		out[ofNode{k.nodeID, k.params.AllocationID}] = true
	}
	return out, err
}
