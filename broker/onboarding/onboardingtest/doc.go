// Package onboardingtest keeps the broker's records in memory, for tests of the chains of package
// onboarding. Book implements both onboarding.Records and onboarding.Nodes, and enrols agents from
// the user-data with which their machines were deployed.
package onboardingtest
