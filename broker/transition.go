package broker

// Owner names who may make a transition (docs/reference/states.md has the drawing).
type Owner string

// The owners.
const (
	OwnerOnboarding Owner = "onboarding"        // enrolment and the checks behind it
	OwnerHeartbeat  Owner = "heartbeat"         // an agent heard, or silent for too long
	OwnerReconciler Owner = "reconciler"        // what is seen disagrees
	OwnerOperator   Owner = "operator"          // an operator's own action
	OwnerDrain      Owner = "drain"             // what a drain came to
	OwnerRemoval    Owner = "removal"           // a removal, and what node.uninstall came to
	OwnerTurnover   Owner = "turnover"          // a decommission run
	OwnerOverride   Owner = "operator_override" // platform_admin, with a reason, past an owed turnover
	OwnerUndo       Owner = "onboarding_undo"   // undo of render_cloud_init: what the broker's own checks kept out enrols anew
)

// Owners are all of them.
var Owners = []Owner{
	OwnerOnboarding, OwnerHeartbeat, OwnerReconciler, OwnerOperator,
	OwnerDrain, OwnerRemoval, OwnerTurnover, OwnerOverride, OwnerUndo,
}

// awaitsResolver reports whether the node shall have other resolver profiles
// than it has in force. Heartbeats bring a node back all the same: it was let in
// with those it has.
func (n Node) awaitsResolver() bool {
	return n.ResolverWanted != "" && n.ResolverWanted != n.ResolverDigest
}

type edge struct{ from, to NodeStatus }

// transitions is the whole table: each pair with those whose code makes it, and no
// other (broker/adminapi walks every one). Every pair that is not here is refused.
// What silence says of a node is the heartbeats' alone, and a quarantine is never
// taken back by what the reconciler sees: it does not know what was done to the
// machine in between. A run makes its node and has it enrolling in one transaction,
// so an undo meets none that only has a token.
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

// Transition says whether a node may go from its status to another by this
// owner. It is the only place that knows the table. A refusal is
// transition_refused or turnover_owed. To stay where it is is no transition:
// callers look first.
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
			return Errorf(Refused, "turnover_owed", "cannot make node %s active: a turnover is owed (finish it, or hostler node activate %s --override --reason R)", n.ID, n.ID)
		}
		if to == Offline && n.TurnoverOwed && by == OwnerOperator {
			return Errorf(Refused, "turnover_owed", "cannot call off the drain of node %s: a turnover is owed (finish it, or cancel it)", n.ID)
		}
		if to == Active && n.awaitsResolver() && by != OwnerOverride && by != OwnerHeartbeat {
			return Errorf(Refused, "resolver_config_unconfirmed", "cannot make node %s active: it has not confirmed the resolver profiles it shall have (hostler resolver show %s)", n.ID, n.ID)
		}
		return nil
	}
	return Errorf(Refused, "transition_refused", "cannot move node %s from %s to %s: %s does not own that transition", n.ID, n.Status, to, by)
}
