package store

import (
	"context"
	"crypto"
	"encoding/json"
	"io"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

var errPending = broker.Errorf(broker.Internal, "internal", "not built yet")

func Open(ctx context.Context, o Options) (*DB, error) { return nil, errPending }
func (db *DB) Close() error                            { return errPending }
func (db *DB) Ping(ctx context.Context) error          { return errPending }

// Now is the store's clock.
func (db *DB) Now() time.Time { return time.Time{} }

// Engine is sqlite or postgres.
func (db *DB) Engine() string { return "" }

// CreateNode: hostname unique among nodes not deleted of a site → hostname_taken.
func (db *DB) CreateNode(ctx context.Context, actor broker.Actor, n NewNode) (broker.Node, error) {
	return broker.Node{}, errPending
}

// Node: node_not_found.
func (db *DB) Node(ctx context.Context, id string) (broker.Node, error) {
	return broker.Node{}, errPending
}

// FindNode: ref is an id, a unique id prefix, a hostname, or site/hostname, among sites (nil: all). node_not_found, ambiguous_node.
func (db *DB) FindNode(ctx context.Context, ref string, sites []string) (broker.Node, error) {
	return broker.Node{}, errPending
}

// ListNodes returns a page and the cursor of the next ("" at the end).
func (db *DB) ListNodes(ctx context.Context, f NodeFilter) (page []broker.Node, next string, err error) {
	return nil, "", errPending
}
func (db *DB) CountNodes(ctx context.Context) (map[broker.NodeStatus]int, error) {
	return nil, errPending
}

// Transition: refusals (transition_refused, turnover_owed) are audited too. Already there: no change, no error.
func (db *DB) Transition(ctx context.Context, actor broker.Actor, nodeID string, c Change) (broker.Node, error) {
	return broker.Node{}, errPending
}

// SetLabels merges; an empty value removes the label.
func (db *DB) SetLabels(ctx context.Context, actor broker.Actor, nodeID string, labels map[string]string) (broker.Node, error) {
	return broker.Node{}, errPending
}
func (db *DB) SetTurnoverOwed(ctx context.Context, actor broker.Actor, nodeID string, owed bool, reason string) error {
	return errPending
}

// Enroll: token_unknown, token_expired, token_used, maas_system_mismatch, node_deleted; all audited.
func (db *DB) Enroll(ctx context.Context, in EnrollInput) (Enrolled, error) {
	return Enrolled{}, errPending
}

// ExtendToken moves the expiry of the node's open token; at most twice (token_extended_twice), token_none where there is none.
func (db *DB) ExtendToken(ctx context.Context, actor broker.Actor, nodeID string, expires time.Time, reason string) error {
	return errPending
}

// IssueToken gives an existing node a new token; the earlier ones not used are void.
func (db *DB) IssueToken(ctx context.Context, actor broker.Actor, nodeID, tokenHash string, expires time.Time, reason string) error {
	return errPending
}

// RecordRenewal: certificate_denied, epoch_superseded.
func (db *DB) RecordRenewal(ctx context.Context, r Renewal) (broker.Node, error) {
	return broker.Node{}, errPending
}
func (db *DB) Deny(ctx context.Context, actor broker.Actor, serial, reason string) error {
	return errPending
}

// DenyNode denies every certificate of a node.
func (db *DB) DenyNode(ctx context.Context, actor broker.Actor, nodeID, reason string) error {
	return errPending
}

// DenyList: serial → reason, of certificates that could still be shown.
func (db *DB) DenyList(ctx context.Context) (map[string]string, error) { return nil, errPending }

// FirstContact is called on an authenticated request of an epoch; idempotent. first: this call was it.
// It consumes the token, denies earlier epochs' certificates and fails their open tasks (node_reenrolled).
func (db *DB) FirstContact(ctx context.Context, nodeID string, epoch int64, serial string) (first bool, err error) {
	return false, errPending
}
func (db *DB) Certificate(ctx context.Context, serial string) (Certificate, error) {
	return Certificate{}, errPending
}
func (db *DB) Certificates(ctx context.Context, nodeID string) ([]Certificate, error) {
	return nil, errPending
}
func (db *DB) CertKey(ctx context.Context, serial string) (crypto.PublicKey, error) {
	return nil, errPending
}

// TouchNodes writes when nodes were last heard. It never changes a status.
func (db *DB) TouchNodes(ctx context.Context, heard map[string]time.Time) error { return errPending }

// SaveReport records changed task types and capabilities; audited only if something changed.
func (db *DB) SaveReport(ctx context.Context, nodeID string, r NodeReport) error { return errPending }

// InsertTask: with an idempotency key the node knows → that task and repeat, or idempotency_conflict.
// node_changed where the node is at another epoch by now.
func (db *DB) InsertTask(ctx context.Context, actor broker.Actor, t broker.Task) (task broker.Task, repeat bool, err error) {
	return broker.Task{}, false, errPending
}
func (db *DB) TaskByKey(ctx context.Context, nodeID, idempotencyKey string) (broker.Task, bool, error) {
	return broker.Task{}, false, errPending
}

// ClaimTasks leases queued tasks to the node, attempt+1; at most one exclusive one is dispatched at a time.
func (db *DB) ClaimTasks(ctx context.Context, nodeID string, epoch int64, lanes []taskcatalog.Lane, limit int) ([]broker.Task, error) {
	return nil, errPending
}

// PendingCancels: dispatched once, asked to stop, not ended.
func (db *DB) PendingCancels(ctx context.Context, nodeID string) ([]string, error) {
	return nil, errPending
}

// RecordProgress renews the lease; attempt_superseded, task_ended, task_not_found.
func (db *DB) RecordProgress(ctx context.Context, nodeID, taskID string, attempt int, p broker.Progress) (leaseUntil time.Time, err error) {
	return time.Time{}, errPending
}

// RecordResult: the first result stands; repeat reports that it was there before.
func (db *DB) RecordResult(ctx context.Context, r Result, effects []broker.Effect) (task broker.Task, repeat bool, err error) {
	return broker.Task{}, false, errPending
}

// CancelTask: queued and never delivered → canceled at once; delivered → asked to stop; ended → as it is.
func (db *DB) CancelTask(ctx context.Context, actor broker.Actor, taskID, reason string) (broker.Task, error) {
	return broker.Task{}, errPending
}
func (db *DB) SweepTasks(ctx context.Context) (Swept, error) { return Swept{}, errPending }

// Task: task_not_found.
func (db *DB) Task(ctx context.Context, id string) (broker.Task, error) {
	return broker.Task{}, errPending
}

// ListTasks is newest first; without envelopes, evidence and results.
func (db *DB) ListTasks(ctx context.Context, f TaskFilter) (page []broker.Task, next string, err error) {
	return nil, "", errPending
}

// OpenTasksByKey counts the open tasks that each task key has signed.
func (db *DB) OpenTasksByKey(ctx context.Context) (map[string]int, error) { return nil, errPending }
func (db *DB) CountTasks(ctx context.Context) (map[broker.TaskStatus]int, error) {
	return nil, errPending
}

// Audit writes a row of its own, for what has no transaction to be in (a refusal at the door).
func (db *DB) Audit(ctx context.Context, e broker.AuditEntry) error { return errPending }
func (db *DB) ListAudit(ctx context.Context, f AuditFilter) ([]SealedEntry, error) {
	return nil, errPending
}

// CreateOperatorToken: token_name_taken.
func (db *DB) CreateOperatorToken(ctx context.Context, actor broker.Actor, t broker.OperatorToken, hash string) error {
	return errPending
}

// OperatorByHash: unknown → token_unknown (Unauthorized). Expiry and revocation are for the caller to judge.
func (db *DB) OperatorByHash(ctx context.Context, hash string) (broker.OperatorToken, error) {
	return broker.OperatorToken{}, errPending
}
func (db *DB) OperatorTokens(ctx context.Context) ([]broker.OperatorToken, error) {
	return nil, errPending
}
func (db *DB) RevokeOperatorToken(ctx context.Context, actor broker.Actor, name, reason string) error {
	return errPending
}

// SaveBundle keeps a trust bundle's envelope by version; trust_version_not_newer.
func (db *DB) SaveBundle(ctx context.Context, actor broker.Actor, version int64, envelope []byte, reason string) error {
	return errPending
}

// Bundle: trust_version_unknown.
func (db *DB) Bundle(ctx context.Context, version int64) ([]byte, error) { return nil, errPending }

// LatestBundle: version 0 where there is none.
func (db *DB) LatestBundle(ctx context.Context) (version int64, envelope []byte, err error) {
	return 0, nil, errPending
}
func (db *DB) ConfirmTrust(ctx context.Context, nodeID string, version int64) error {
	return errPending
}

// TrustStragglers: enrolled, not deleted, and not at version or above.
func (db *DB) TrustStragglers(ctx context.Context, version int64) ([]broker.Node, error) {
	return nil, errPending
}

// StartRotation: one at a time per use → rotation_open.
func (db *DB) StartRotation(ctx context.Context, actor broker.Actor, r Rotation, reason string) error {
	return errPending
}
func (db *DB) Rotations(ctx context.Context) ([]Rotation, error) { return nil, errPending }
func (db *DB) FinishRotation(ctx context.Context, actor broker.Actor, use string, leftBehind []string, reason string) error {
	return errPending
}

// SaveBaseline keeps a baseline by digest and makes it the node's.
func (db *DB) SaveBaseline(ctx context.Context, actor broker.Actor, nodeID, digest string, baseline []byte, reason string) error {
	return errPending
}

// Baseline: baseline_not_found.
func (db *DB) Baseline(ctx context.Context, digest string) ([]byte, error) { return nil, errPending }

// PutPackage streams r into the store in blocks. Not readable before it is whole. p.Digest set and another → digest_mismatch; same digest again: as it is.
func (db *DB) PutPackage(ctx context.Context, actor broker.Actor, p Package, r io.Reader) (Package, error) {
	return Package{}, errPending
}

// OpenPackage: package_not_found.
func (db *DB) OpenPackage(ctx context.Context, digest string) (Package, io.ReadSeeker, error) {
	return Package{}, nil, errPending
}
func (db *DB) Packages(ctx context.Context) ([]Package, error) { return nil, errPending }

// RecordMint: once per task, attempt and type, while the node holds the lease; lease_lost, already_minted. Audited either way.
func (db *DB) RecordMint(ctx context.Context, nodeID string, epoch int64, taskID string, attempt int, credentialType string) error {
	return errPending
}

// CleanPolicy of a site, or nil where none is set.
func (db *DB) CleanPolicy(ctx context.Context, site string) (json.RawMessage, error) {
	return nil, errPending
}
func (db *DB) SetCleanPolicy(ctx context.Context, actor broker.Actor, site string, policy json.RawMessage, reason string) error {
	return errPending
}

// BindKeys records this broker's key ids and fingerprints by name the first time, and compares later: key_mismatch.
func (db *DB) BindKeys(ctx context.Context, keys map[string]string) error { return errPending }

// RebindKeys replaces some of them, in a rotation.
func (db *DB) RebindKeys(ctx context.Context, actor broker.Actor, keys map[string]string, reason string) error {
	return errPending
}

// BoundKeys: empty where none are recorded yet.
func (db *DB) BoundKeys(ctx context.Context) (map[string]string, error) { return nil, errPending }

// Hint tells every replica, after whatever it is about has committed. The store's own methods give theirs themselves.
func (db *DB) Hint(h Hint) {}

// Hints subscribes until ctx ends; a slow reader loses hints, never blocks.
func (db *DB) Hints(ctx context.Context) <-chan Hint { return nil }

// Lead runs f while this process leads: always on SQLite, under an advisory lock on PostgreSQL, whose loss ends f's context. Returns when ctx ends.
func (db *DB) Lead(ctx context.Context, f func(ctx context.Context)) error { return errPending }
