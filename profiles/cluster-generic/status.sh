#!/bin/sh
# Prints the state of a PBS job: running, success or failed. Snakemake calls it with the number that qsub printed.
# While qstat does not answer, the job counts as running. A job that qstat has forgotten counts as failed.
shown=$(qstat -xf "$1" 2>&1)
case $shown in
  *"nknown Job"*) echo failed ;;
  *) echo "$shown" | awk '
    $1 == "job_state" { state = $3 }
    tolower($1) == "exit_status" { status = $3 }
    END { if (state == "F" || state == "C") print (status == "0" ? "success" : "failed"); else print "running" }' ;;
esac
