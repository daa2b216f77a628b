"""What the lessons show: readings and prices, the timeline and its pictures, faults, exercises.

May import the ground, the writer, the runtime and the inspector.
Start reading at `sources.sensor_readings`; `exercises.Exercise` checks what a learner answers.
"""
