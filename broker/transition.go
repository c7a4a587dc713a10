package broker

// Owner names the part of the system that makes a transition (docs/reference/states.md has the
// drawing).
type Owner string

// The owners.
const (
	OwnerOnboarding Owner = "onboarding"        // enrolment and the checks after it
	OwnerHeartbeat  Owner = "heartbeat"         // an agent heard, or silent for too long
	OwnerReconciler Owner = "reconciler"        // the observed state disagrees with the record
	OwnerOperator   Owner = "operator"          // an operator's own action
	OwnerDrain      Owner = "drain"             // the result of a drain
	OwnerRemoval    Owner = "removal"           // a removal, and the result of node.uninstall
	OwnerTurnover   Owner = "turnover"          // a decommission run
	OwnerOverride   Owner = "operator_override" // platform_admin, with a reason, past an owed turnover
	OwnerUndo       Owner = "onboarding_undo"   // undo of render_cloud_init: a node kept out by the broker enrols again
)

// Owners lists all owners.
var Owners = []Owner{
	OwnerOnboarding, OwnerHeartbeat, OwnerReconciler, OwnerOperator,
	OwnerDrain, OwnerRemoval, OwnerTurnover, OwnerOverride, OwnerUndo,
}

// awaitsResolver reports whether the node's assigned resolver profiles differ from the profiles
// in force. Heartbeats may still make such a node active: the node was let in with the profiles
// in force.
func (n Node) awaitsResolver() bool {
	return n.ResolverWanted != "" && n.ResolverWanted != n.ResolverDigest
}

type edge struct{ from, to NodeStatus }

// transitions is the whole table: each pair of statuses with the owners whose code makes the
// transition (broker/adminapi walks every pair). Every pair outside the table is refused. Only
// heartbeats react to silence. The reconciler never ends a quarantine, because it does not know
// what was done to the machine meanwhile. A run creates its node and moves the node to enrolling
// in one transaction, so an undo never meets a node in bootstrap_issued.
var transitions = map[edge][]Owner{
	{BootstrapIssued, Enrolling}: {OwnerOnboarding},
	{BootstrapIssued, Deleted}:   {OwnerRemoval},
	{Enrolling, Active}:          {OwnerOnboarding},
	{Enrolling, Quarantined}:     {OwnerOnboarding, OwnerOperator},
	{Enrolling, Deleted}:         {OwnerUndo, OwnerRemoval},
	{Active, Offline}:            {OwnerHeartbeat},
	{Offline, Active}:            {OwnerHeartbeat},
	{Active, Quarantined}:        {OwnerReconciler, OwnerOperator, OwnerTurnover},
	{Offline, Quarantined}:       {OwnerReconciler, OwnerOperator, OwnerTurnover},
	{Quarantined, Active}:        {OwnerOperator, OwnerTurnover, OwnerOverride},
	{Quarantined, Enrolling}:     {OwnerUndo},
	{Quarantined, Draining}:      {OwnerOperator, OwnerTurnover},
	{Active, Draining}:           {OwnerOperator, OwnerTurnover},
	{Offline, Draining}:          {OwnerOperator, OwnerTurnover},
	{Draining, Retired}:          {OwnerDrain, OwnerTurnover},
	{Draining, Offline}:          {OwnerDrain, OwnerOperator},
	{Draining, Quarantined}:      {OwnerTurnover},
	{Retired, Active}:            {OwnerOperator, OwnerTurnover, OwnerOverride},
	{Retired, Quarantined}:       {OwnerTurnover},
	{Retired, Removing}:          {OwnerRemoval, OwnerTurnover},
	{Removing, Retired}:          {OwnerRemoval, OwnerOperator, OwnerTurnover},
	{Removing, Deleted}:          {OwnerRemoval, OwnerTurnover},
}

// Transition says whether the owner may move a node from its status to another. It is the only
// user of the table. Codes: transition_refused, turnover_owed, resolver_config_unconfirmed.
// Staying in the same status is no transition: callers look first.
func Transition(n Node, to NodeStatus, by Owner) error {
	owners, ok := transitions[edge{n.Status, to}]
	if !ok {
		return Errorf(Refused, "transition_refused", "cannot move node %s from %s to %s: there is no such transition", n.ID, n.Status, to)
	}
	for _, o := range owners {
		if o != by {
			continue
		}
		if to == Active && n.TurnoverOwed && by != OwnerOverride {
			return Errorf(Refused, "turnover_owed",
				"cannot make node %s active: a turnover is owed (finish it, or hostler node activate %s --override --reason R)", n.ID, n.ID)
		}
		if to == Offline && n.TurnoverOwed && by == OwnerOperator {
			return Errorf(Refused, "turnover_owed",
				"cannot cancel the drain of node %s: a turnover is owed (finish or cancel the turnover)", n.ID)
		}
		if to == Active && n.awaitsResolver() && by != OwnerOverride && by != OwnerHeartbeat {
			return Errorf(Refused, "resolver_config_unconfirmed",
				"cannot make node %s active: the node has not confirmed its assigned resolver profiles (hostler resolver show %s)", n.ID,
				n.ID)
		}
		return nil
	}
	return Errorf(Refused, "transition_refused", "cannot move node %s from %s to %s: %s does not own that transition", n.ID, n.Status, to,
		by)
}
