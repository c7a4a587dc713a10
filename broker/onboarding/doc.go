// Package onboarding brings machines of a MAAS region into service and takes them out of
// it again: the chains of onboarding and adoption, and the stages by which a turnover has
// a machine released, erased and deployed anew. Package maas speaks to the region; this
// package decides what is asked of it, and knows nodes by the ports Nodes and Records.
//
// # Model
//
// Lifecycle.Onboarding is the list of stages from a BMC's address to an active
// node; a file has the stages of a phase, and Onboarding is the state of a run.
// Each call of a stage looks, and then makes one change of the machine at most: what
// came of it is seen by the next look, never taken from an answer. So an answer that was lost, a
// 504 and a broker that died are one case, and no call is repeated: the stage is
// called again, and decides by what it sees. Nothing of a machine is taken back, nor
// let go, for some minutes after a change of which no answer came, as MAAS may carry it
// out late; nor after a step whose broker died or was cut off, counted from the end of
// its lease (Run.LostAt), as nobody knows what that step had asked for. A commissioning
// is not taken back, and not waited for: MAAS begins none of a machine that somebody has.
//
// What a step could not look at costs no attempt: Again where it is this machine
// or this run alone, Hold where nothing of the region answers, the key is refused, or
// the secrets cannot be read. A hold is the whole site's, so it rests on a look of its
// own at the site: its record, its token, and MAAS. Attempts are spent where a BMC, an
// image or a machine failed.
//
// # Whose a machine is
//
// A machine is a run's when it carries the run's mark, two workload annotations
// that name node and run, and its owner is the user by whom the run claimed it.
// Only the owner can write them, and MAAS takes them away when it gives a machine
// back. The claim is made in this order, with a saved state between each two:
//
//	intent    Onboarding.Claim names machine, node and user
//	allocate  by system_id, the one call in MAAS that only one can win, with the
//	          agent name hostler-RUN
//	annotate  the mark
//	deploy    of an Allocated machine with the mark, and of no other
//
// A broker that dies between allocate and annotate leaves an Allocated machine
// without a mark. It is taken for the run's if all of this holds: the saved intent
// names it, the owner is the intent's user, nobody has marked it, and MAAS finds it
// under the run's agent name. That name is never told by MAAS and goes with the
// allocation, so somebody who allocates by hand with the same key is not taken for
// us. All else that is Allocated, Deploying, Deployed, failed or kept from use is
// refused as state_ambiguity and left as it is; no undo, rescue or restart_clean
// releases it. Nor does one the machine of a node that is in use, whatever the mark
// says: active, offline, draining, or with a turnover owed that is not the run's own
// (Nodes.InUse). Deploying, Deployed and Failed deployment are never ours without the
// mark, for nothing is deployed before it is there.
//
// Before that, a run changes a machine that is nobody's: it is New, Ready or Failed
// commissioning, every key that was given leads to it and to no other, and the run
// holds the lock machine/SITE/SYSTEM_ID. A machine that is not New must have the
// hostname as its own, and MAAS must know its BMC by the address that was given: a
// name or an address that leads to another machine, or to none, is a typo until
// somebody says otherwise.
//
// # Adoption
//
// Lifecycle.Adoption is for a machine that somebody has deployed. Its stages look at
// MAAS and call nothing that changes it, and neither does what takes them back: there
// is no claim, and no mark. The owner must be the user of the site's token, as nobody
// else's machine is ever given back by a run, and must stay so. That the agent comes from
// the machine that was meant, its disks say (Nodes.Activate).
//
// # Taking a machine back
//
// A run over a node that exists (NewReclaim, ReleaseMachine, PowerOff, RemoveRecord) has
// the node's machine released, and may deploy it anew by onboarding's own stages
// (Redeployment). The node stays where another run has it (Onboarding.Keeps), and is
// never forgotten with what is taken back.
//
// It releases a machine that is marked for the node, whichever run of this broker wrote
// that, and of which the owner is the user of the site's token; and of a node that was
// adopted the machine that has no mark, or that of a node which is deleted: it is
// Deployed, called as the node is, and marked first. All else is left as it is, and so
// is the machine of a node that may be in use (Nodes.InUse). The intent is saved before
// the release is sent. The stage ends when the machine is nobody's, and not before it is
// past that MAAS carries a release out late: that would meet the system deployed anew.
//
// What MAAS did to the disks is by its history and by what was seen, and never what was
// asked for: of a machine that is Ready or Releasing MAAS erases nothing, and does not
// say so. Its quick erase is no overwrite. An erase is waited for however long it takes;
// one that fails is tried once more, and then done without if the profile says
// release_fallback_no_erase of a machine that is deployed anew, as a downgrade that is told. MAAS releases a machine whose
// erase failed, or which is Broken, as it is: nothing is aborted nor marked as fixed. A
// region whose setting erases on each release leaves nothing to fall back on.
//
// The machine's own token goes with its owner. A digest of it is kept over the release,
// and the machine that is deployed anew must have another one: with the old one the
// tenant before could have MAAS take the machine back.
//
// Off is what the BMC says when it is asked, not that MAAS was told to. That switches a
// machine without a mark, which is nobody's: the run that has released it holds its
// lock, and nothing else of ours does so. What MAAS cannot tell a person may accept by
// adopt_observed_state, which is written down.
//
// # Power
//
// Commissioning by IPMI is off and on again: it resets whatever runs there. Before
// its first switching a run has MAAS ask the BMC, and waits for a person while the
// machine runs, unless the profile says discovery_power_cycle. That is all of
// discovery's power cycling; MAAS switches no machine that it has no record of.
// power_on is never called, and power_off by PowerOff alone.
//
// # Nodes
//
// The node is enrolling from render_cloud_init until the run's last stage lets it
// in, whatever its agent has done meanwhile: a node is active when its machine
// reports its hardware and is still the run's. The enrol token is in the bundle
// alone, which is rendered again where it is used. A run that begins from the ground has
// a node enrol anew that the broker's own checks keep out; whom a person keeps out, no
// run lets in.
//
// # Where this departs from the sources
//
// MAAS gives no token before a deployment is rendered, so the bundle has none:
// hardware sync comes with the deployment, and where MAAS never makes the token the
// run ends failed_hw_sync_seed. A machine that has not reported its hardware one and
// a half intervals after it was deployed is seeded by its agent, or over SSH where
// none has come (package sshseed): never earlier, because MAAS does it by itself
// nearly always. What cannot be reached is tried until the stage's time is over, and
// then is post_deploy_connectivity_failure. Its health is worked
// out: last_sync has moved since the machine became Deployed by MAAS's history, or was
// first seen so where that tells nothing, and is not older than one and a half
// intervals. MAAS accepts a New machine by commissioning
// it, so there is no call of accept. What a person has mended MAAS sees when it
// commissions the machine again: resume has it do so.
package onboarding
