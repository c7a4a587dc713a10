// Package onboarding brings machines of a MAAS region into service and takes them out of service
// again. It holds the chains of onboarding and adoption, and the stages by which a turnover has a
// machine released, erased and redeployed. Chains is the main type: it makes the chains and
// their stages. Package maas speaks to the region; this package decides what is asked of the
// region. It reads and changes nodes only through the ports Nodes and Records.
//
// # Model
//
// Chains.Onboarding is the list of stages from a BMC's address to an active node. Each file
// holds the stages of one phase, and Onboarding is the state of a run. Each call of a stage looks,
// and then makes at most one change of the machine. The next look shows the result of the change;
// an answer is never taken as proof. So a lost answer, a 504 and a broker that died are one case,
// and no call is repeated: the stage is called again and decides by what it sees.
//
// MAAS may carry out a request late. So for some minutes after a change without an answer, nothing
// of the machine is undone and the machine is not let go. The same holds after a step whose broker
// died or was cut off, because nobody knows what this step had requested; the time counts from the
// end of the step's lease (Run.LostAt). A commissioning is neither undone nor waited for: MAAS
// commissions no machine that has an owner.
//
// A failed look costs no attempt. A stage returns Again where only this machine or this run is
// affected. It returns Hold where nothing of the region answers, the key is refused, or the secrets
// cannot be read. A hold affects the whole site, so it follows a separate look at the site: its
// record, its token, and MAAS. Attempts are spent where a BMC, an image or a machine failed.
//
// # Whose a machine is
//
// A machine is a run's when it carries the run's mark and its owner is the user with which the run
// claimed it. The mark is two workload annotations that name node and run. Only the owner can write
// them, and MAAS removes them when it takes a machine back. The claim is made in this order, and
// the state is saved between each two steps:
//
//	intent    Onboarding.Claim names machine, node and user
//	allocate  by system_id, the one call in MAAS that only one caller can win, with the
//	          agent name hostler-RUN
//	annotate  the mark
//	deploy    of an Allocated machine with the mark, and of no other
//
// A broker that dies between allocate and annotate leaves an Allocated machine without a mark. The
// machine counts as the run's if all of this holds: the saved intent names it, the owner is the
// intent's user, there is no mark, and MAAS finds the machine under the run's agent name. MAAS
// never discloses an agent name and drops it with the allocation, so a person who allocates by hand
// with the same key is not mistaken for the run. Every other machine that is Allocated, Deploying,
// Deployed, failed or kept from use is refused as state_ambiguity and left unchanged; no undo,
// rescue or restart_clean releases it. Nor do they release the machine of a node that is in use,
// whatever the mark says: active, offline, draining, or with an owed turnover that is not the run's
// own (Nodes.InUse). Deploying, Deployed and Failed deployment are never ours without the mark,
// because nothing is deployed before the mark is written.
//
// Before the claim, a run changes a machine that nobody owns. This machine is New, Ready or Failed
// commissioning, every given key matches this machine and no other, and the run holds the lock
// machine/SITE/SYSTEM_ID. A machine that is not New must have the given hostname, and MAAS must
// know its BMC by the given address. A name or an address that matches another machine, or none, is
// treated as a typing error until a person decides.
//
// # Adoption
//
// Chains.Adoption is for a machine that somebody has deployed. Neither its stages nor their undo
// make a call that changes MAAS: there is no claim, and no mark. The owner must be the user of the
// site's token and must stay so, because a run never gives back another user's machine. The disks
// prove that the agent runs on the expected machine (Nodes.Activate).
//
// # Taking a machine back
//
// A run over an existing node (NewReclaim, ReleaseMachine, PowerOff, RemoveRecord) has the node's
// machine released, and may redeploy it by onboarding's own stages (Redeployment). The node keeps
// its status until the turnover lets it in (Onboarding.Keeps), and an undo never removes the node.
//
// Such a run releases a machine that is marked for the node, by any run of this broker, and is
// owned by the user of the site's token. The machine of an adopted node may instead have no mark,
// or the mark of a deleted node; it must be Deployed and have the node's hostname, and the run
// marks it first. Every other machine is left unchanged, and so is the machine of a node that may
// be in use (Nodes.InUse). The intent is saved before the release is sent. The stage ends when the
// machine has no owner and MAAS can no longer carry out a release late: a late release would hit
// the redeployed system.
//
// What MAAS did to the disks is taken from MAAS's history and from what the run saw, never from the
// request: MAAS erases nothing of a machine that is Ready or Releasing, and does not report that.
// MAAS's quick erase is no overwrite. An erase is waited for however long it takes. A failed erase
// is tried once more. Then a machine that is redeployed goes on without an erase if the profile has
// release_fallback_no_erase, and the certificate reports the downgrade. MAAS releases a machine
// whose erase failed, or which is Broken, as it is: nothing is aborted or marked as fixed. A region
// whose setting erases on each release leaves no fallback.
//
// The machine's own token changes with its owner. A digest of the token is kept over the release,
// and the redeployed machine must have another token: with the old token, the former tenant could
// have MAAS take the machine back.
//
// A machine counts as off when its BMC says so, not when MAAS was asked to switch it off. PowerOff
// switches a machine without a mark or an owner: the run that has released the machine holds its
// lock, and no other part of Hostler switches it. Where MAAS cannot tell, a person may accept the
// state by adopt_observed_state, and the acceptance is recorded.
//
// # Power
//
// Commissioning by IPMI cycles the power and so resets whatever runs on the machine. Before its
// first switching a run has MAAS ask the BMC, and waits for a person while the machine runs, unless
// the profile has discovery_power_cycle. Discovery cycles no other power; MAAS switches no machine
// without a record. power_on is never called, and power_off by PowerOff alone.
//
// # Nodes
//
// The node is enrolling from render_cloud_init until the run's last stage activates it, whatever
// its agent has done meanwhile. A node becomes active when its machine reports its hardware and is
// still the run's. The enrol token is only in the bundle, which is rendered again where it is used.
// A run that starts over has a node enrol anew if only the broker's own checks keep the node out;
// no run activates a node that a person keeps out.
//
// # Where this departs from the sources
//
// MAAS gives no machine token before a deployment is rendered, so the bundle has none. Hardware
// sync comes with the deployment, and where MAAS never makes the token the run ends in
// failed_hw_sync_seed. A machine that has not reported its hardware one and a half intervals after
// its deployment is seeded by its agent, or over SSH where no agent has enrolled (package sshseed).
// It is never seeded earlier, because MAAS nearly always seeds it by itself. An unreachable machine
// is tried until the stage's time is over; the run then ends in post_deploy_connectivity_failure.
//
// Hardware sync is healthy when last_sync has moved since the baseline and is not older than one
// and a half intervals. The baseline is shortly after the moment at which the machine became
// Deployed by MAAS's history. Where the history does not tell, the baseline is the last_sync of the
// first look at the Deployed machine.
//
// MAAS accepts a New machine by commissioning it, so accept is never called. MAAS notices a
// person's repair when it commissions the machine again; resume has it do so.
package onboarding
