// Package reconcile compares what MAAS says of machines with what the broker says
// of its nodes, writes down where they differ, and does about it what the site
// wants done.
//
// # Model
//
// A Rule is a row: what MAAS says, what the node is, how bad that is, what is done
// and what people are told. Rules is the whole table, and the first row that holds
// counts: a node has one drift at a time. Judge is a pure function of one machine,
// one node and the site's Policy. Watch reads, judges, writes and acts; one broker
// watches, the one that leads.
//
// Each rule has a Mode at each site. observe, the default, writes drift down and
// tells of it; act also does what the row says; off passes the row over. A node
// whose machine nobody released and that is Ready all the same is put in
// quarantine: nothing here deploys, releases or powers a machine. The one rule that
// leads to a machine being given back (retired_deployed) is off until somebody
// turns it on, and asks for a decommission run, which people can see, stop and
// cancel.
//
// # Two signals
//
// The agent's polls are the first (package presence moves nodes between active and
// offline by them), MAAS is the second. MAAS's word that a machine is off counts
// only while its agent is not heard; that a machine is not ours any more counts
// either way, and the record says when its agent was last heard.
//
// # What has to hold before anything is done
//
//   - The region's list was read whole. An error, or an empty list where machines
//     are expected, changes nothing.
//   - Two observations in a row said the same of the same node, at least
//     ConfirmSeconds apart. That is how a machine in transition is passed over, and
//     it makes the second observation newer than the node's last change.
//   - The machine was then read alone. That is what proves that one is absent: a
//     list that lacks it does not.
//   - No more than a share of the site's nodes would change in one way within
//     an hour, those that have changed already counted, whatever anybody has made of
//     them since. Else it is more likely that something else is wrong: nothing of that
//     kind is written or done, and one alert is raised until it has passed.
//   - In the transaction that acts the node is still as it was judged, no run has
//     it, no turnover is owed, and the site is not frozen. A run that is begun here
//     takes the node only from where it was judged, and with nobody on it.
//
// A node in the hands of a run, or with a turnover owed, is observed and never
// judged: the run knows what its machine is doing.
//
// # What is written
//
// What MAAS told of a machine is written when it has changed, and a drift when it
// begins, when something was done, and when it ends; a round in which nothing
// changed writes one row, of the site. A drift ends by itself when two observations
// find it gone, and on an operator's word. That word is no promise: if the drift is
// still there it is found again. With retired_deployed it is one: the node is left
// as it is for as long as it stays retired.
//
// A quarantine is never taken back here. A drift that has ended says that MAAS and
// node agree again, not what was done to the machine in between.
//
// # What lives in memory
//
// The first of two observations, and when each machine last reported its hardware.
// A broker that begins to lead begins anew with both, which only costs time. Times
// that MAAS writes are not compared with a clock of ours, since up to 3.5 they have
// no zone: a machine is late when its last_sync has not moved for one and a half
// intervals while we looked.
package reconcile
