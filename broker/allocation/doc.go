// Package allocation hands nodes to a project, and takes them back with proof: the chains
// allocation.provision and allocation.release, each for one allocation with all its nodes.
//
// Where an image was asked for, provision first has each node reimaged that has another one. The reimage is a
// turnover: the node comes back on a certificate, and stays with the allocation meanwhile.
//
// Provision makes the tenant's account on each node by a signed task, and the allocation active if each node is
// still the tenant's by then: the run may have been stopped meanwhile. If a node cannot be given, the allocation fails. Each node on which the account may be, or whose agent
// could not make it, is turned over.
//
// Before an allocation becomes active, the operation runs that its SKU or its project names (broker.OperationBindings).
// Without a good end the allocation fails. A release runs the operation of the end first. If the SKU names it, no account
// ends without its good end; a forced release goes on without it, and any release without that of a project. A tenant can
// make it fail, so the site's policy bounds how long its failure keeps a release (end_operation_pass_after, counted from the
// begin of the release): Watch then lets it go on as by force, and each node is reimaged where MAAS has its machine. The
// operation's id follows from the allocation, so that none begins twice, and each wait for one ends.
//
// A release first cancels what people have running on the nodes, and waits for its end for as long as a cancel may take.
// Where an operation may still run, whoever's it is, nothing is cleaned in place: the node is reimaged.
//
// Release then ends the account, has each node turned over by a run of its own, and waits for the
// certificates. The allocation is released only with a certificate of each node. A turnover that
// waits for a person makes the allocation release_failed. A silent node whose turnover a reimage is
// about to replace is waited for. The next release goes on where the nodes
// are: a node that was proven clean stays so, a stopped turnover is resumed unless a person has
// stopped it.
//
// Each stage goes by the allocation's status, not by what the run remembers: a broker may die after a
// status was reached and before the run is saved, and the nodes of a released allocation may be another
// tenant's a moment later. The code of a failed allocation is one of a few, because the tenant sees it.
// The run and the audit log have the failure itself.
//
// The list of the release that did not cancel the operations of people first is kept (Chain.Former). Older lists are not:
// there has been no release with them, and a run of one stops for a person (list_unknown).
//
// Status and claims are the store's (broker.TransitionAllocation judges), and so is the judgement
// whether a node may be handed out (broker.Handout). The package knows neither quotas nor placement.
// Chains builds the lists, Records is the port, and package records implements it. Nobody starts
// these runs by hand: records.Watch begins a run for each allocation whose status asks for one, so
// a broker that dies after a status was written loses nothing.
package allocation
